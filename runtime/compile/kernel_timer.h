#pragma once
// Times the implementations of a node on the device: cuDNN's algorithms for a convolution, which its heuristics only
// rank, or a kernel's widths on CPU, which the analytic model only estimates. Like torch.backends.cudnn.benchmark.

#include <map>

#include "core/device/backend.h"
#include "runtime/compile/node_kernels.h"
#include "scheduler/costs/profile.h"

namespace braid {

class KernelTimer {
 public:
  /// Does not time what the profile `known` contains, if there is one. With `share`, neither what another timer that
  /// shares has timed on the device in this process.
  KernelTimer(Backend& backend, StreamGroup& streams, const scheduler::Profile* known = nullptr, bool share = false);

  /// Replaces the durations of all nodes that have at least `least` implementations by those measured alone, on random
  /// numbers. Nothing is timed twice, even in different graphs, and what takes more than twice as long as the fastest
  /// so far is timed once. Nothing else may be running. If memory is too short for a node's tensors, its durations stay
  /// as they are.
  void time(const StepGraph& graph, const NodeKernels& kernels, scheduler::Costs& costs, bool tf32,
            std::size_t least = 2);
  /// All that it knows so far.
  const std::map<scheduler::NodeImplementation, KernelTiming>& timings() const { return known_; }
  /// KernelTiming::clock of what was timed, as "events and graph replay"; empty if nothing was.
  std::string clock() const;

 private:
  Backend& backend_;
  StreamGroup& streams_;
  bool share_;
  Buffer scratch_;  // while timing
  std::map<scheduler::NodeImplementation, KernelTiming> known_;
};

}  // namespace braid
