#include "train/checkpoint/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace braid {

namespace {

constexpr std::string_view kTemporary = ".tmp";

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  return path.string() + message(kTemporary, getpid());
}

bool is_temporary_name(const std::string& name) {
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  return digits < name.size() && name.substr(0, digits).ends_with(kTemporary);
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

bool File::lock(bool wait) { return flock(descriptor_, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0; }

void File::sync() {
  if (fsync(descriptor_) != 0) fail("cannot write to disk");
}

std::vector<std::int64_t> numbers_of_files(const std::filesystem::path& folder, std::string_view prefix,
                                           std::string_view suffix) {
  std::vector<std::int64_t> numbers;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) continue;
    const char *begin = name.data() + prefix.size(), *end = name.data() + name.size() - suffix.size();
    std::int32_t number = 0;
    const auto [stop, error] = std::from_chars(begin, std::max(begin, end), number);
    if (error == std::errc{} && stop == end && number >= 0) numbers.push_back(number);
  }
  std::ranges::sort(numbers, std::ranges::greater{});
  return numbers;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC);
  try {
    file.write(text);
  } catch (const Error&) {
    std::error_code ignored;
    if (is_regular_file(symlink_status(path, ignored))) std::filesystem::remove(path, ignored);  // not /dev/full
    throw;
  }
}

void check_writable(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool existed = exists(symlink_status(path, ignored));
  File(path, O_WRONLY | O_CREAT);
  if (!existed) std::filesystem::remove(path, ignored);
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), file_(temporary_name(path_), O_WRONLY | O_CREAT | O_TRUNC) {}

AtomicFile::~AtomicFile() {
  if (!committed_) unlink(file_.path().c_str());
}

void AtomicFile::commit() {
  file_.sync();
  BRAID_CHECK(rename(file_.path().c_str(), path_.c_str()) == 0, Error, path_.string(),
              ": cannot put the new file in place: ", std::strerror(errno));
  committed_ = true;
  File(path_.has_parent_path() ? path_.parent_path() : ".", O_RDONLY | O_DIRECTORY).sync();
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

FolderLock::FolderLock(const std::filesystem::path& folder, bool wait) : folder_(folder, O_RDONLY | O_DIRECTORY) {
  BRAID_CHECK(folder_.lock(wait) || errno != EWOULDBLOCK, Error, folder.string(), ": is in use by another process");
}

void remove_leftovers(const std::filesystem::path& folder) noexcept {
  try {
    File lock(folder, O_RDONLY | O_DIRECTORY);
    if (!lock.lock(false)) return;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (is_temporary_name(entry.path().filename().string())) std::filesystem::remove(entry.path());
    }
  } catch (const std::exception&) {  // best effort
  }
}

}  // namespace braid
