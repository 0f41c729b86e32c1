#pragma once
// When kernels really ran, from CUPTI's activity records. CUPTI comes with the toolkit and not with the driver, can
// have one user at a time in a process, and slows down every launch while it is attached. So it is used only on
// request: it is attached once in a process, and detached for good.

#include <cstdint>
#include <map>
#include <string>

namespace braid::cuda {

/// The start of the first and the end of the last kernel of a node, nanoseconds on the device's clock.
struct KernelTime {
  std::uint64_t start = 0;
  std::uint64_t finish = 0;
};

/// While it lives, StreamGroup::measure on CUDA takes its times from CUPTI instead of events. At most one in a process,
/// ever. While it begins and ends, no stream may have work.
class KernelTracing {
 public:
  KernelTracing();
  ~KernelTracing();
  KernelTracing(const KernelTracing&) = delete;
  KernelTracing& operator=(const KernelTracing&) = delete;

  /// Why CUPTI cannot be used, so that events remain the clock; empty if it is used.
  const std::string& problem() const { return problem_; }
  /// The living instance, unless it has a problem; or null.
  static KernelTracing* current();

  /// Attributes what this thread enqueues until end() to a node.
  void begin(std::int32_t node);
  void end();
  /// Times per node since the last call; nodes that started no kernel are missing. The streams must have been
  /// synchronised.
  std::map<std::int32_t, KernelTime> collect();

 private:
  std::string problem_;
};

}  // namespace braid::cuda
