#include "core/device/cpu/cpu_backend.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "core/base/align.h"
#include "core/base/error.h"
#include "core/device/cpu/avx512.h"
#include "core/device/cpu/free_memory.h"
#include "core/device/cpu/stream_group.h"
#include "core/device/cpu/thread_pool.h"

namespace braid::cpu {

namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "CPU";
}

std::size_t physical_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(int threads) {
    BRAID_CHECK(threads >= 0, DeviceError, "[cpu] expected at least 0 threads, got ", threads);
    info_.name = cpu_name();
    info_.capacity = threads > 0 ? threads : usable_cores();
    info_.max_width = info_.capacity;
    info_.memory_bytes = physical_memory();
    // Round figures for a current server core: sustained FLOP/s in f32 convolutions, bandwidth when activations stay in
    // the last-level cache, and the cost of dispatching a kernel and of waking a second thread. Profiles replace them
    // where accuracy matters.
    info_.flops_per_unit = 1e11;
    info_.bytes_per_second_unit = 4e10;
    info_.bytes_per_second = 7e10;
    info_.launch_seconds = 1e-6;
    info_.fork_seconds = 4e-6;
    info_.avx512 = has_avx512();
  }

  Device device() const override { return {}; }
  const DeviceInfo& info() const override { return info_; }

  /// Mapped memory is zero, and large blocks may use huge pages: an arena is touched front to back every step.
  Buffer allocate(std::size_t bytes) override {
    constexpr std::size_t kPage = std::size_t{2} << 20;
    constexpr std::string_view kWhat = "a buffer";
    if (bytes < kPage) {
      void* data = std::aligned_alloc(256, align_up(std::max<std::size_t>(bytes, 1), std::size_t{256}));
      if (data == nullptr) throw_out_of_memory(kWhat, bytes);
      std::memset(data, 0, bytes);
      return {data, bytes, [](void* p, std::size_t) { std::free(p); }};
    }
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) throw_out_of_memory(kWhat, bytes);
    madvise(data, bytes, MADV_HUGEPAGE);
    return {data, bytes, [](void* p, std::size_t size) { munmap(p, size); }};
  }

  void clear(void* target, std::size_t bytes) override { std::memset(target, 0, bytes); }
  void copy_to_device(void* target, const void* source, std::size_t bytes) override { copy(target, source, bytes); }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override { copy(target, source, bytes); }
  std::unique_ptr<StreamGroup> make_streams(const StreamOptions& options) override {
    BRAID_CHECK(options.partition.empty(), DeviceError,
                "[cpu] streams with their own parts of the device need CUDA: use a number of streams");
    ThreadPool::instance().reserve(info_.capacity);
    return std::make_unique<CpuStreamGroup>(options.count);
  }

 private:
  /// Large blocks with several threads: the first touch of a page takes longer than copying it.
  void copy(void* target, const void* source, std::size_t bytes) const {
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    parallel_for(info_.capacity, static_cast<std::int64_t>(bytes), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(static_cast<std::byte*>(target) + begin, static_cast<const std::byte*>(source) + begin,
                  static_cast<std::size_t>(end - begin));
    });
  }

  DeviceInfo info_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(int threads) { return std::make_unique<CpuBackend>(threads); }

}  // namespace braid::cpu
