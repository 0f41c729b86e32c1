#include "tests/fuzz/fuzz.h"

#include <sanitizer/allocator_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <limits>

namespace braid::fuzz {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
std::atomic<std::int64_t> allocated = 0, limit = kNoLimit, allowed = 0;  // bytes

void count_allocation(const volatile void*, std::size_t bytes) {
  const std::int64_t most = limit;
  if ((allocated += static_cast<std::int64_t>(bytes)) <= most) return;
  limit = kNoLimit;
  std::fprintf(stderr, "expected at most %lld more bytes in use\n", static_cast<long long>(allowed.load()));
  __sanitizer_print_stack_trace();
  std::abort();
}

void count_release(const volatile void* memory) {
  allocated -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory));
}

}  // namespace

MemoryFolder::MemoryFolder() : path_((std::filesystem::temp_directory_path() / "braid-fuzz-XXXXXX").string()) {
  require(mkdtemp(path_.data()) != nullptr, "a temporary folder");
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string MemoryFolder::write(const std::string& name, std::string_view content) {
  const std::string path = path_ + '/' + name;
  const auto [file, made] = descriptors_.try_emplace(name, -1);
  if (made) {
    file->second = memfd_create(name.c_str(), MFD_CLOEXEC);
    std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(file->second), path);
  }
  const auto bytes = static_cast<ssize_t>(content.size());
  require(ftruncate(file->second, 0) == 0 && pwrite(file->second, content.data(), content.size(), 0) == bytes,
          "space for a file in memory");
  return path;
}

}  // namespace braid::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  using namespace braid::fuzz;
  require(__sanitizer_install_malloc_and_free_hooks(count_allocation, count_release) != 0, "room for a malloc hook");
  kFuzzer.read({});  // makes what is made once, which counts for no input
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid::fuzz;
  allowed = static_cast<std::int64_t>(kFuzzer.fixed_bytes + size * kFuzzer.bytes_per_byte);
  limit = allocated + allowed;
  kFuzzer.read({reinterpret_cast<const char*>(data), size});
  limit = kNoLimit;
  return 0;
}
