#pragma once
// Times the ways to run a node on the device: cuDNN's algorithms for a convolution, which its heuristics only rank, or
// a kernel's widths on CPU, whose durations the analytic model only guesses. Like torch.backends.cudnn.benchmark.

#include <map>

#include "runtime/executable.h"
#include "scheduler/costs/profile.h"

namespace braid {

class KernelTimer {
 public:
  KernelTimer(Backend& backend, StreamGroup& streams) : backend_(backend), streams_(streams) {}

  /// Replaces the durations of all nodes that can be run in several ways by what they take alone, on tensors of zeros.
  /// What was timed before, in any graph, is not timed again. Nothing may be running. Where memory is too short for a
  /// node's tensors, its durations stay as they are.
  void time(const StepGraph& graph, const NodeKernels& kernels, scheduler::Costs& costs, bool tf32);

 private:
  double microseconds(const StepGraph& graph, NodeId node, Kernel& kernel);

  Backend& backend_;
  StreamGroup& streams_;
  Buffer scratch_;  // while timing
  std::map<scheduler::NodeImplementation, double> known_;
};

}  // namespace braid
