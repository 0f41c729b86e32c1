#pragma once
// Explains a plan: the decisions of the list scheduler and the wait planner, in order. Filled if Problem::log is set,
// read by train/report/plan/explain.h.

#include <string>
#include <utility>
#include <vector>

#include "scheduler/policy.h"

namespace braid::scheduler {

struct ScheduleLog {
  /// A decision about a ready node: it started, or was passed over because waiting is better or necessary.
  struct Pick {
    double time = 0;
    std::vector<NodeId> ready{};  ///< the most important first
    int free_units = 0, free_streams = 0;
    NodeId node = kNoNode;
    int limit = 0;                 ///< the widest that it might start
    bool fixed = false;            ///< the implementation was given
    bool in_turn = false;          ///< one wide node after another; else, ready nodes share what is free
    double reserved = 0;           ///< when capacity is promised to a more important node; infinite if it is not
    int implementation = -1;       ///< -1: none is possible
    double start = 0, finish = 0;  ///< of a node that started; else when it could start, and would finish
    bool started = false;
  };
  /// A schedule that competed.
  struct Attempt {
    std::string rule;
    std::vector<Pick> picks{};         ///< empty: not by the list scheduler, or not logged
    std::vector<double> priorities{};  ///< per node
    /// Pairs (first, second) that local search added: the second node is ready only once the first has started.
    std::vector<std::pair<NodeId, NodeId>> start_orders{};
    double makespan = 0;
  };
  std::vector<Attempt> attempts;
  std::size_t kept = 0;

  /// Why a node of the kept schedule is on its stream.
  struct StreamPick {
    bool wide = false;      ///< it is wide, and goes to stream 0, which owns the wide team of threads
    bool link = false;      ///< it communicates, and goes to the stream of its link
    int free_streams = 0;   ///< that it could have gone to
    int waits = 0;          ///< that it needs there; of the others none needs fewer
    NodeId last = kNoNode;  ///< the node that the stream ran last
  };
  std::vector<StreamPick> stream_picks;  ///< per node; empty: not logged

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
  std::vector<std::pair<NodeId, NodeId>> memory_edges;  ///< those among them that only let large values share bytes
};

}  // namespace braid::scheduler
