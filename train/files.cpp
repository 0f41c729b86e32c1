#include "train/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace braid {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.string() + message(".tmp", getpid());
}

}  // namespace

File::File(std::filesystem::path path, int flags)
    : path_(std::move(path)), descriptor_(open(path_.c_str(), flags | O_CLOEXEC, 0666)) {
  if (descriptor_ < 0) fail("cannot open");
}

File::~File() { close(descriptor_); }

void File::fail(std::string_view what) const {
  throw Error(message(path_.string(), ": ", what, ": ", std::strerror(errno)));
}

void File::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write");
    next += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

std::uint64_t File::size() const {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) fail("cannot stat");
  return static_cast<std::uint64_t>(status.st_size);
}

void File::truncate(std::uint64_t bytes) {
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail("cannot truncate");
}

void File::sync() {
  if (fsync(descriptor_) != 0) fail("cannot write to disk");
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  File(path, O_WRONLY | O_CREAT | O_TRUNC).write(text);
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), file_(temporary_name(path_), O_WRONLY | O_CREAT | O_TRUNC) {}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(file_.path().c_str());
}

void AtomicFile::commit(const std::filesystem::path& previous) {
  file_.sync();
  try {
    if (!previous.empty() && std::filesystem::exists(path_)) keep_as(previous);
    std::filesystem::rename(file_.path(), path_);
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(message(path_.string(), ": cannot put the new file in place: ", error.code().message()));
  }
  committed_ = true;
  File(folder_of(path_), O_RDONLY | O_DIRECTORY).sync();
}

void AtomicFile::keep_as(const std::filesystem::path& previous) const {
  // A second name for the old file, so that at every moment a complete file stands under `path`.
  const std::filesystem::path link = temporary_name(previous);
  std::error_code unsupported;
  std::filesystem::remove(link);  // what a crash may have left
  std::filesystem::create_hard_link(path_, link, unsupported);
  std::filesystem::rename(unsupported ? path_ : link, previous);
  std::filesystem::remove(link);  // still there if it was the same file as `previous` already
}

}  // namespace braid
