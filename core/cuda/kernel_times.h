#pragma once
// When kernels really ran, from CUPTI's activity records. CUPTI is loaded when it is first needed, and only if it is
// installed: it comes with the toolkit and not with the driver, and it can have one user at a time in a process.

#include <cstdint>
#include <map>

namespace braid::cuda {

/// The start of the first and the end of the last kernel of a node, nanoseconds on the device's clock.
struct KernelTime {
  std::uint64_t start = 0;
  std::uint64_t finish = 0;
};

/// Records from its creation to finish(). One at a time in a process.
class KernelTimes {
 public:
  KernelTimes();
  ~KernelTimes();
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  /// Whether CUPTI is installed and not in use elsewhere. If not, the functions below do nothing.
  bool recording() const { return recording_; }
  /// What this thread enqueues from now on, until end(), belongs to a node.
  void begin(std::int32_t node);
  void end();
  /// Times per node; nodes that started no kernel are missing. The device must have been synchronised.
  std::map<std::int32_t, KernelTime> finish();

 private:
  bool recording_ = false;
};

}  // namespace braid::cuda
