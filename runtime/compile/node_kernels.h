#pragma once
// The kernels of a step's nodes: one for each implementation that the scheduler may choose. A plan keeps one per node.

#include <memory>
#include <vector>

#include "core/graph/graph_copy.h"
#include "ops/kernels/kernels.h"
#include "scheduler/costs/costs.h"

namespace braid {

/// A kernel for each implementation of each node. A plan picks one of them.
using NodeKernels = std::vector<std::vector<std::unique_ptr<Kernel>>>;

/// The device that kernels are built for, and their limits. See KernelSpec.
struct KernelTarget {
  Device device;
  const DeviceInfo& info;
  bool tf32 = false;
  bool direct = false;
  bool deterministic = true;
  bool autotune = false;
  std::size_t workspace_limit = KernelSpec::kWorkspaceLimit;  ///< bytes, per kernel
  int multiprocessors = 0;
  bool keep_filters = false;  ///< kernels may keep copies of filters in a step without updates
  Communicator* communicator = nullptr;
  bool partial = false;  ///< skip ops without a kernel for this device: enough to plan, not to run
};

/// Builds all kernels that the device has for all nodes, at every width in `costs`. Afterwards `costs` has one
/// implementation per kernel, with its workspace, ordered by width and then by the device's ranking.
NodeKernels make_kernels(const StepGraph& graph, KernelTarget target, scheduler::Costs& costs);

/// Keeps, of the implementations of one width of a node, the fastest: another one may round differently, and which
/// suits a plan depends on its streams.
void keep_fastest(NodeKernels& kernels, scheduler::Costs& costs);

/// Kernels for a graph with recomputation. Reuses the recorded graph's kernels, and builds new ones for the recomputed
/// nodes. `costs` belong to the graph with recomputation.
NodeKernels make_kernels(const RewrittenGraph& recomputed, NodeKernels recorded, KernelTarget target,
                         const scheduler::Costs& costs);

/// The slots of the persistent tensors that a step changes.
std::vector<std::int32_t> changed_slots(const StepGraph& graph);

}  // namespace braid
