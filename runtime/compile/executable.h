#pragma once
// A plan made ready to run: one kernel per node with its pointers bound into the arena, and the program that launches
// them.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/context.h"
#include "core/graph/graph_copy.h"
#include "runtime/compile/node_kernels.h"
#include "scheduler/plan.h"

namespace braid {

class Executable {
 public:
  /// Moves the chosen kernels out of `kernels`. The rewritten graph must outlive the executable. With recomputation of
  /// its nodes, plan, kernels and costs belong to the graph that contains it. See Program::brief.
  Executable(const RewrittenGraph& rewritten, std::optional<RewrittenGraph> recomputed, scheduler::Plan plan,
             NodeKernels kernels, const scheduler::Costs& costs, bool brief);

  const scheduler::Plan& plan() const { return plan_; }
  /// The planned graph: the rewritten one, or the one with recomputation.
  const StepGraph& graph() const { return graph_; }
  /// The recorded node that a node of the planned graph is, or recomputes.
  NodeId recorded_node(NodeId node) const { return rewritten_.recorded_node(node); }
  /// The implementation of a node in this plan.
  const scheduler::Cost& chosen(NodeId node) const { return chosen_[static_cast<std::size_t>(node)]; }
  /// The work of a node, with the arithmetic of its kernel's algorithm.
  Work work(NodeId node) const;

  /// Binds all kernels to an arena and the persistent tensors if the arena has moved, and updates the kernels' copies
  /// of filters that have changed.
  void bind(void* arena, const Context& context, StreamGroup& streams);
  /// Launches the bound kernels that may be unusable, on whatever the arena holds; does so once. Throws UnusableKernel.
  void try_kernels(StreamGroup& streams);
  bool tried() const { return tried_; }
  /// Copies the inputs of a step into the arena, before the next launch. Values belong to the recorded graph, in
  /// recording order.
  void upload_inputs(std::span<const std::pair<ValueId, Array>> inputs, StreamGroup& streams);
  /// Whether it has run often enough since it was bound to make a capture worthwhile. A failed capture is tried again
  /// in the next runs, because another thread may have broken it.
  bool wants_capture() const { return may_be_captured() && runs_ >= kRunsBeforeCapture; }
  /// Whether it may be captured in this run or a later one.
  bool may_be_captured() const { return replay_ == nullptr && runs_ <= kLastCapture; }
  bool is_last_capture() const { return runs_ == kLastCapture; }
  /// Captures the program, so that later launches replay it as a whole. False on devices that cannot. Throws
  /// DeviceError if this program cannot be captured.
  bool capture(StreamGroup& streams);
  /// The persistent tensors that a run changes.
  std::span<const std::int32_t> changed() const { return changed_; }
  /// Starts all streams: replays the capture if there is one, else issues every launch.
  void launch(StreamGroup& streams);
  /// Runs all streams once and waits. See StreamGroup::measure.
  RunTimes measure(StreamGroup& streams) const { return streams.measure(program_); }
  /// Where a kept value of the recorded graph lies after a run. Throws Error if it was not kept.
  const void* source(ValueId value, const Context& context) const;
  /// Copies a kept value of the recorded graph out of the arena. Throws Error if it was not kept.
  Array read(ValueId value, const Context& context) const;

 private:
  /// A capture costs about as much as several runs, so plans that are seldom used are never captured.
  static constexpr int kRunsBeforeCapture = 2, kLastCapture = kRunsBeforeCapture + 2;

  void* address(ValueId value, const Context& context) const;
  void keep_filters(const Context& context, StreamGroup& streams);

  const std::optional<RewrittenGraph> recomputed_;
  const RewrittenGraph& rewritten_;  // or the one with recomputation
  const StepGraph& graph_;
  scheduler::Plan plan_;
  std::vector<scheduler::Cost> chosen_;           // per node
  std::vector<std::unique_ptr<Kernel>> kernels_;  // per node; null for views
  Program program_;                               // the commands of plan_, and kernels_
  std::vector<std::int32_t> changed_;             // slots
  struct KeptFilter {
    Kernel* kernel;
    std::int32_t slot;
    std::uint64_t version;  // that the kernel keeps; 0 for none
  };
  std::vector<KeptFilter> kept_filters_;
  std::vector<Upload> uploads_;  // scratch, kept so that a run allocates nothing
  void* arena_ = nullptr;
  bool bound_ = false;  // every kernel has its addresses
  bool tried_ = false;  // no kernel is unusable
  int runs_ = 0;        // since it was bound
  std::unique_ptr<Replay> replay_;
};

}  // namespace braid
