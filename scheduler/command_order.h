#pragma once
// The happens-before relation of a plan: a stream runs its commands in order, and what follows a wait comes after what
// precedes the record of its event. Memory planning, simulation and the search for implementations use this type. The
// verifier derives the order independently, so that it finds mistakes here.

#include <span>
#include <vector>

#include "core/device/program.h"
#include "core/graph/op.h"

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
  std::int32_t stream(NodeId node) const { return stream_[index(node)]; }
  /// Place of a node in its stream, from 0.
  std::int32_t position(NodeId node) const { return position_[index(node)]; }
  /// The node ahead of this one in its stream; kNoNode if it is the first.
  NodeId previous(NodeId node) const {
    const std::int32_t place = position(node);
    return place == 0 ? kNoNode
                      : launched_[static_cast<std::size_t>(stream(node))][static_cast<std::size_t>(place - 1)];
  }
  /// The nodes whose events this one waits for, in the order of the waits.
  std::span<const NodeId> awaited(NodeId node) const { return awaited_[index(node)]; }
  /// How many nodes of a stream have finished when this node starts, whatever the durations (a vector clock).
  std::int32_t finished(NodeId node, std::size_t stream) const { return finished_[index(node) * streams() + stream]; }
  /// Whether `a` has finished when `b` starts, whatever the durations.
  bool before(NodeId a, NodeId b) const { return finished(b, static_cast<std::size_t>(stream(a))) > position(a); }

 private:
  static std::size_t index(NodeId node) { return static_cast<std::size_t>(node); }
  void launch(NodeId node, std::size_t stream, std::vector<NodeId> awaited);

  std::vector<NodeId> sequence_;
  std::vector<std::vector<NodeId>> launched_;    // per stream
  std::vector<std::int32_t> stream_, position_;  // per node
  std::vector<std::vector<NodeId>> awaited_;     // per node
  std::vector<std::int32_t> finished_;           // node × stream
};

}  // namespace braid::scheduler
