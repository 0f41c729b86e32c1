#pragma once
// Times the implementations of a node on the device: cuDNN's algorithms for a convolution, which its heuristics only
// rank, or a kernel's widths on CPU, which the analytic model only estimates. Like torch.backends.cudnn.benchmark.

#include <map>

#include "runtime/executable.h"
#include "scheduler/costs/profile.h"

namespace braid {

class KernelTimer {
 public:
  KernelTimer(Backend& backend, StreamGroup& streams) : backend_(backend), streams_(streams) {}

  /// For all nodes with several implementations, replaces the durations by those measured alone, on tensors of zeros.
  /// Nothing is timed twice, even in different graphs. Nothing else may be running. If memory is too short for a node's
  /// tensors, its durations stay as they are.
  void time(const StepGraph& graph, const NodeKernels& kernels, scheduler::Costs& costs, bool tf32);

 private:
  double microseconds(const StepGraph& graph, NodeId node, Kernel& kernel);

  Backend& backend_;
  StreamGroup& streams_;
  Buffer scratch_;  // while timing
  std::map<scheduler::NodeImplementation, double> known_;
};

}  // namespace braid
