#pragma once
// Which waits a node needs, as nodes are placed on streams one after another, in a topological order. Every node has a
// vector clock (Mattern, "Virtual time and global states of distributed systems", 1989): how many nodes of each stream
// have finished when it has. A predecessor needs a wait only if neither the stream's own past nor another wait of the
// same node covers it. Since streams are in order, that leaves at most one wait per other stream, and no wait can be
// left out: this is the transitive reduction of the graph with the streams' own order added.

#include <span>
#include <vector>

#include "scheduler/schedule_log.h"

namespace braid::scheduler {

class StreamClocks {
 public:
  StreamClocks(std::size_t nodes, int streams);

  bool is_placed(NodeId node) const { return stream(node) >= 0; }
  /// The stream of a node, and its place in it from 0; -1 before it is placed.
  std::int32_t stream(NodeId node) const { return stream_[index(node)]; }
  std::int32_t position(NodeId node) const { return position_[index(node)]; }
  /// How many nodes of a stream have finished when a placed node starts.
  std::int32_t finished(NodeId node, int stream) const {
    return clocks_[index(node) * last_.size() + index(stream)] - (stream == this->stream(node) ? 1 : 0);
  }
  /// The node placed last on a stream; kNoNode if there is none.
  NodeId last(int stream) const { return last_[index(stream)]; }

  /// The nodes that this one must wait for if it comes next on `stream`; a node always has the same predecessors. A log
  /// records what orders each predecessor. Leaves out those that are not placed: the verifier refuses the plan. Valid
  /// until the next call.
  std::span<const NodeId> waits(NodeId node, std::span<const NodeId> predecessors, int stream,
                                ScheduleLog* log = nullptr);
  /// Places a node behind those on `stream`, and returns its waits.
  std::span<const NodeId> place(NodeId node, std::span<const NodeId> predecessors, int stream,
                                ScheduleLog* log = nullptr);

 private:
  std::span<const NodeId> latest_predecessors(NodeId node, std::span<const NodeId> predecessors);
  static std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }
  std::span<std::int32_t> clock(NodeId node) {
    return std::span(clocks_).subspan(index(node) * last_.size(), last_.size());
  }
  bool covers(std::span<const std::int32_t> clock, NodeId node) const {
    return clock[index(stream_[index(node)])] > position_[index(node)];
  }

  std::vector<NodeId> last_;                     // per stream
  std::vector<std::int32_t> clocks_;             // node × stream
  std::vector<std::int32_t> stream_, position_;  // per node; -1 before it is placed
  // Scratch: what has finished when the node starts; per stream, the last predecessor that has not; those to wait for
  std::vector<std::int32_t> now_;
  std::vector<NodeId> latest_, waits_;
  NodeId last_tried_ = kNoNode;  // the node that tried_ is about
  std::vector<NodeId> tried_;
};

}  // namespace braid::scheduler
