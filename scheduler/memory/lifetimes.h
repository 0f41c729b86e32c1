#pragma once
// When the bytes of every value are in use. Two different questions: which values may ever be in use at once, whatever
// the durations, is read from the partial order of the command lists (stream order and waits), never from the order of
// issue, which would be a race as soon as there are two streams; how much is in use at one time is read from the
// predicted times, and is a lower bound for every placement.

#include <compare>
#include <span>
#include <vector>

#include "scheduler/command_order.h"
#include "scheduler/plan.h"

namespace braid::scheduler {

/// Values at one address: a root value and those that are written over it in place.
struct ValueBlock {
  std::int64_t bytes = 0;   ///< aligned
  NodeId first = kNoNode;   ///< writes it first; kNoNode: the host, before the step starts
  bool kept = false;        ///< in use to the end
  std::int32_t begin = -1;  ///< first and last rank (see Lifetimes) at which its bytes may be in use
  std::int32_t end = -1;
};

class Lifetimes {
 public:
  /// Throws PlanError if the plan deadlocks or leaves a node out.
  Lifetimes(const StepGraph& graph, const Plan& plan);

  std::span<const ValueBlock> blocks() const { return blocks_; }
  /// The block of a value; -1 if it is persistent.
  std::int32_t block_of(ValueId value) const { return block_of_[static_cast<std::size_t>(graph_.value(value).root)]; }
  /// Nodes launched. They are ranked by predicted start, which is a topological order.
  std::int32_t rank(NodeId node) const { return start_[static_cast<std::size_t>(node)].rank; }
  std::int32_t ranks() const { return static_cast<std::int32_t>(by_rank_.size()); }
  /// Whether two blocks may be in use at once.
  bool conflict(std::int32_t a, std::int32_t b) const;

  /// The most bytes in use at one time, as predicted, and the newest value at that time of every block in use.
  struct Peak {
    std::int64_t bytes = 0;
    std::vector<ValueId> values;
  };
  Peak peak() const;

 private:
  /// A point in predicted time; ranks order nodes that start at the same time.
  struct Moment {
    double time = -1;
    std::int32_t rank = -1;
    auto operator<=>(const Moment&) const = default;
  };

  void predict(const Plan& plan);
  void collect_uses();
  void form_blocks();
  void find_lifetime(std::int32_t block);
  bool may_take_over(ValueId id) const;
  bool in_arena(ValueId id) const { return graph_.value(id).slot < 0 && graph_.value(id).root == id; }
  bool before(std::int32_t a, std::int32_t b) const;

  const StepGraph& graph_;
  const CommandOrder order_;
  const std::size_t streams_;

  std::vector<Moment> start_;   // per node
  std::vector<double> finish_;  // per node
  std::vector<NodeId> by_rank_;

  std::vector<ValueBlock> blocks_;
  std::vector<std::int32_t> block_of_;    // per value; -1 if it is persistent or a view
  std::vector<std::int32_t> uses_;        // value × stream: how many of its nodes finish before the value is free
  std::vector<std::int32_t> block_uses_;  // block × stream: the same for blocks
  std::vector<std::int32_t> concurrent_;  // block × stream: nodes of the stream that may run while it is in use
};

}  // namespace braid::scheduler
