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

/// Leaves every node the one choice that needs the least workspace; the fastest of several.
void keep_least_workspace(KernelChoices& kernels, Costs& costs);

class Executable {
 public:
  /// Takes the chosen kernels out of `kernels`. The graph must outlive the executable.
  Executable(const StepGraph& graph, Plan plan, KernelChoices kernels);

  const Plan& plan() const { return plan_; }
  const StepGraph& graph() const { return graph_; }

  /// Binds all kernels to an arena and the persistent tensors; cheap if nothing has moved.
  void bind(void* arena, const Context& context);
  /// Forgets the arena, which has moved.
  void unbind();
  /// Sends the inputs of a step into the arena, ahead of the next launch. Values are those of the graph, in recording
  /// order.
  void upload_inputs(std::span<const std::pair<ValueId, Array>> inputs, StreamGroup& streams) const;
  /// Starts all streams. The first runs issue their launches one by one; `capture` makes the later ones a replay of the
  /// whole, on devices that know such a thing.
  void launch(StreamGroup& streams, bool capture);
  /// Runs all streams once and waits. See StreamGroup::measure.
  std::vector<LaunchTime> measure(StreamGroup& streams) const { return streams.measure(program_); }
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
  int runs_ = 0;        // since it was bound
  std::unique_ptr<Replay> replay_;
};

}  // namespace braid
