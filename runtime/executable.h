#pragma once
// A plan made ready to run: one kernel per node with its pointers bound into the arena, and the program that launches
// them.

#include <memory>
#include <utility>
#include <vector>

#include "core/context.h"
#include "scheduler/plan.h"

namespace braid {

/// Kernels for every choice of every node, until a plan has picked one each.
using KernelChoices = std::vector<std::vector<std::unique_ptr<Kernel>>>;

/// Builds the kernels of all nodes at every width that costs offer, and adds their workspaces to the costs.
KernelChoices make_kernels(const StepGraph& graph, DeviceType device, Costs& costs);

class Executable {
 public:
  /// Takes the chosen kernels out of `kernels`. The graph must outlive the executable.
  Executable(const StepGraph& graph, Plan plan, KernelChoices kernels);

  const Plan& plan() const { return plan_; }
  const StepGraph& graph() const { return graph_; }

  /// Binds all kernels to an arena and the persistent tensors; cheap if nothing has moved.
  void bind(void* arena, const Context& context);
  /// Forgets the arena, which has moved.
  void unbind() { bound_ = false; }
  /// Copies the inputs of a step into the arena. Values are those of the graph, in recording order.
  void copy_inputs(std::span<const std::pair<ValueId, Array>> inputs, Backend& backend) const;
  void launch(StreamGroup& streams) const { streams.launch(program_); }
  /// Copies a kept value out of the arena. Throws Error if it was not kept.
  Array read(ValueId value, const Context& context) const;

 private:
  void* address(ValueId value, const Context& context) const;

  const StepGraph& graph_;
  Plan plan_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // per node; null for views
  Program program_;
  void* arena_ = nullptr;
  bool bound_ = false;  // every kernel has its addresses
};

}  // namespace braid
