#pragma once
// Writes files so that a crash, a full disk or a power cut leaves either the old file or the new one, never a part.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

namespace braid {

/// An open file descriptor. Every method throws Error "path: operation: reason".
class File {
 public:
  /// `flags` as for open(2); files are made with mode 0666 less the umask.
  File(std::filesystem::path path, int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Bytes in the file.
  std::uint64_t size() const;
  void truncate(std::uint64_t bytes);
  /// Returns when the content is on the disk.
  void sync();
  /// Locks the file or folder until the object or the process ends. Waits for other holders if `wait`. False if there
  /// is one, or if the file system has no locks.
  bool lock(bool wait);
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail(std::string_view what) const;

  std::filesystem::path path_;
  int descriptor_;
};

/// The n, below 2^31, of the files and folders named by a prefix, n and a suffix, the largest first; none if there is
/// no such folder.
std::vector<std::int64_t> numbers_of_files(const std::filesystem::path& folder, std::string_view prefix,
                                           std::string_view suffix = "");

/// Creates or truncates the file and writes the text. On failure it leaves no partial file.
void write_file(const std::filesystem::path& path, std::string_view text);

/// Replaces a file durably by one with the text. On failure the old one remains.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// Throws Error if it is already clear that the file cannot be written. Changes nothing.
void check_writable(const std::filesystem::path& path);

/// A file that appears under its name atomically.
class AtomicFile {
 public:
  /// Opens a temporary file next to `path`.
  explicit AtomicFile(std::filesystem::path path);
  /// Removes the temporary file, unless commit() was called.
  ~AtomicFile();

  void write(const void* data, std::size_t bytes) { file_.write(data, bytes); }
  void write(std::string_view text) { file_.write(text); }
  /// Replaces an older file durably: write, fsync, rename, fsync of the folder.
  void commit();

 private:
  std::filesystem::path path_;
  File file_;
  bool committed_ = false;
};

/// Marks a folder as in use by this process for the lifetime of the object. Ends with the process, even a killed one.
class FolderLock {
 public:
  /// While another process holds the lock, waits or throws Error. Without effect where the file system has no locks.
  /// Throws Error if the folder cannot be opened.
  explicit FolderLock(const std::filesystem::path& folder, bool wait = true);

 private:
  File folder_;
};

/// Removes the temporary files of AtomicFile that killed processes have left in a folder. Does nothing while another
/// process holds its FolderLock, or where the file system has no locks. Throws nothing.
void remove_leftovers(const std::filesystem::path& folder) noexcept;

}  // namespace braid
