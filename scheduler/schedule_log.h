#pragma once
// Why a plan is as it is: what the list scheduler and the wait planner decided, as they went. Filled if Problem::log is
// set, read by scheduler/explain.h.

#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy.h"

namespace braid {

struct ScheduleLog {
  enum class StreamReason {
    wide,               ///< stream 0, which owns the wide team of threads
    after_predecessor,  ///< that of the predecessor that finished last, which saves a wait
    first_free,
  };
  /// A ready node was looked at: it started, or was passed over because it does better to wait, or must.
  struct Pick {
    double time = 0;
    std::vector<std::pair<NodeId, double>> ready{};  ///< with bottom levels, the most important first
    int free_units = 0, free_streams = 0;
    NodeId node = kNoNode;
    int limit = 0;         ///< the widest that it might start
    bool in_turn = false;  ///< one wide node after another; else, ready nodes share what is free
    double reserved = 0;   ///< when capacity is promised to a more important node; infinite if it is not
    int choice = -1;       ///< -1: none is possible
    double start = 0, finish = 0;
    int stream = -1;  ///< -1: passed over
    StreamReason reason = StreamReason::first_free;
  };
  /// A schedule that competed.
  struct Attempt {
    std::string rule;
    std::vector<Pick> picks{};  ///< empty for the serial schedule
    double makespan = 0;
  };
  std::vector<Attempt> attempts;
  std::size_t kept = 0;

  /// Why an order between two nodes needs a wait, or needs none.
  enum class Order {
    wait,     ///< kept
    stream,   ///< both are in one stream
    known,    ///< the stream has waited for it before, or for something after it
    later,    ///< `by`, later in the same stream, is waited for as well
    implied,  ///< `by`, waited for as well, is itself after it
  };
  struct Dependence {
    NodeId before = kNoNode, after = kNoNode;
    Order order = Order::wait;
    NodeId by = kNoNode;
  };
  std::vector<Dependence> dependences;
};

}  // namespace braid
