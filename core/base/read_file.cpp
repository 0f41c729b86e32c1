#include "core/base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "core/base/error.h"

namespace braid {

std::string read_file(const std::filesystem::path& path, std::string_view what, std::size_t most) {
  const auto check = [&](bool condition, const auto&... why) {
    BRAID_CHECK(condition, DataError, path.string(), ": cannot read ", what, ": ", why...);
  };
  // Without O_NONBLOCK, opening a pipe waits for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  check(descriptor >= 0, std::strerror(errno));
  const auto close_it = [](const int* opened) { close(*opened); };
  const std::unique_ptr<const int, decltype(close_it)> closed(&descriptor, close_it);
  struct stat status {};
  check(fstat(descriptor, &status) == 0, std::strerror(errno));
  check(!S_ISDIR(status.st_mode), "expected a file, this is a folder");
  const std::string name = path.string();
  const bool is_open = name.starts_with("/dev/") || name.starts_with("/proc/");  // a descriptor or a device
  check(!S_ISFIFO(status.st_mode) || is_open, "expected a file, this is a named pipe");
  fcntl(descriptor, F_SETFL, 0);

  constexpr std::size_t kLeast = 1 << 16;
  std::string content;
  std::size_t bytes = 0;
  while (true) {
    if (bytes == content.size()) {
      content.resize(std::max({kLeast, std::min(static_cast<std::size_t>(status.st_size), most) + 1, 2 * bytes}));
    }
    const ssize_t got = ::read(descriptor, content.data() + bytes, content.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    check(got >= 0, std::strerror(errno));
    if (got == 0) break;
    bytes += static_cast<std::size_t>(got);
    check(bytes <= most, "it is larger than ", most, " bytes");
  }
  content.resize(bytes);
  return content;
}

}  // namespace braid
