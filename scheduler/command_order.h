#pragma once
// The happens-before relation of a plan: a stream runs its commands in order, and what follows a wait comes after what
// precedes the record of its event. Memory planning, simulation and the search for implementations use this type. The
// verifier derives the order independently, so that it finds mistakes here.

#include <span>
#include <vector>

#include "core/device/program.h"
#include "scheduler/lowering/stream_clocks.h"

namespace braid::scheduler {

class CommandOrder {
 public:
  /// Throws PlanError if a stream waits for an event that is never recorded, or a node is launched twice.
  CommandOrder(const CommandLists& commands, std::int32_t node_count);

  std::size_t streams() const { return launched_.size(); }
  /// The nodes that are launched, in a topological order.
  std::span<const NodeId> sequence() const { return sequence_; }
  /// The nodes of a stream, in order.
  std::span<const NodeId> launched(std::size_t stream) const { return launched_[stream]; }
  /// -1 if the node is not launched.
  std::int32_t stream(NodeId node) const { return clocks_.stream(node); }
  /// Place of a node in its stream, from 0.
  std::int32_t position(NodeId node) const { return clocks_.position(node); }
  /// What a node directly follows: the node ahead of it in its stream, if there is one, and those it waits for.
  std::span<const NodeId> followed(NodeId node) const { return followed_[static_cast<std::size_t>(node)]; }
  /// The nodes whose events this one waits for, in the order of the waits.
  std::span<const NodeId> awaited(NodeId node) const { return followed(node).subspan(position(node) == 0 ? 0 : 1); }
  /// How many nodes of a stream have finished when this node starts, whatever the durations.
  std::int32_t finished(NodeId node, std::size_t stream) const {
    return clocks_.finished(node, static_cast<std::int32_t>(stream));
  }
  /// Whether `a` has finished when `b` starts, whatever the durations.
  bool before(NodeId a, NodeId b) const { return finished(b, static_cast<std::size_t>(stream(a))) > position(a); }

 private:
  void launch(NodeId node, std::size_t stream, std::span<const NodeId> awaited);

  std::vector<NodeId> sequence_;
  std::vector<std::vector<NodeId>> launched_;  // per stream
  std::vector<std::vector<NodeId>> followed_;  // per node
  StreamClocks clocks_;
};

}  // namespace braid::scheduler
