#pragma once
// The policies that decide order and streams without looking at the clock share this: nodes are placed one after
// another, each at the earliest time that its stream, its predecessors and the capacity allow.

#include <map>

#include "scheduler/policy.h"

namespace braid::scheduler {

/// The implementation of a node if every stream gets an equal share of the capacity: the fastest implementation at most
/// capacity / streams wide, or the narrowest if all are wider. Where the hardware oversubscribes, the fastest
/// implementation.
int equal_share(const Problem& problem, NodeId node);

class Timeline {
 public:
  explicit Timeline(const Problem& problem);

  /// Appends a node to this stream, or to that of its link, with the implementation that equal_share() gives. Its
  /// predecessors must have been placed. It starts before nodes placed earlier on other streams if there is room for
  /// it.
  void place(NodeId node, int stream);

  /// When the last node of the stream finishes, microseconds.
  double free_at(int stream) const { return streams_[stream].free_at; }
  /// The node placed last on the stream; kNoNode if there is none.
  NodeId last(int stream) const { return streams_[stream].last; }
  /// The stream that computes and is free first; among ties, one without nodes.
  int first_free() const;
  const Placement& placement(NodeId node) const { return schedule_.placements[node]; }

  /// The schedule of all nodes placed, in the order of their starts, with the resource edges that keep it within the
  /// capacity.
  Schedule finish() &&;

 private:
  struct Stream {
    double free_at = 0;
    NodeId last = kNoNode;
  };
  /// The number of units in use does not change until the time of the next step.
  struct Step {
    int used = 0;
    int instant = 0;  // units that nodes of no duration take at its time on top of that
  };
  using Steps = std::map<double, Step>;

  double earliest(double ready, const Cost& cost) const;
  void occupy(double start, const Cost& cost);
  Steps::iterator step_at(double time);
  void merge(Steps::iterator step);

  const Problem& problem_;
  std::vector<Stream> streams_;
  Steps steps_;  // how much of the capacity is in use at any time
  Schedule schedule_;
};

}  // namespace braid::scheduler
