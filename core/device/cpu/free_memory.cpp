#include "core/device/cpu/free_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "core/base/error.h"

namespace braid::cpu {

void throw_out_of_memory(std::string_view what, std::size_t bytes) {
  constexpr std::size_t kMiB = 1 << 20;
  const auto free =
      static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  const std::string limited =
      limit.rlim_cur == RLIM_INFINITY
          ? ""
          : message(", and ulimit -v gives this process ", limit.rlim_cur / kMiB, " MiB of addresses in all");
  throw OutOfMemory(message("[cpu] out of memory: ", what, " needs ", (bytes + kMiB - 1) / kMiB,
                            " MiB more; the system has about ", free / kMiB, " MiB free", limited,
                            ". Use a smaller batch or a smaller model"));
}

void check_free_memory(std::string_view what, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) throw_out_of_memory(what, bytes);
  munmap(data, bytes);
}

}  // namespace braid::cpu
