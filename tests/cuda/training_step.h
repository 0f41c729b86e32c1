#pragma once
// A training step in which every wait counts, and the questions to steps in a row answered by brute force.

#include "tests/cuda/sequence/operations.h"
#include "tests/scheduler/oracle.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {

/// Places node i on stream kStreams[i], in recording order.
inline Schedule placed_by_hand(const Problem& problem) {
  constexpr int kStreams[] = {0, 1, 2, 0, 1, 2, 0};
  Schedule schedule;
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    schedule.placements.push_back({.stream = kStreams[node], .start = 2.0 * node, .finish = 2.0 * node + 2});
    schedule.order.push_back(node);
  }
  return schedule;
}

/// A training step in small, in which every wait counts: each stream begins with a node that waits for no other and
/// reads the input and a parameter, and ends with one that no other waits for and that makes a value to keep. Node 3
/// updates the parameter. Every node has a workspace.
struct Training {
  StepGraph graph;
  Costs costs;
  Plan plan;

  explicit Training(bool with_input = true) {
    const ValueId weight = graph.add_persistent(bytes_desc(1000), ValueKind::parameter, 0);
    std::vector<ValueId> read{weight};
    if (with_input) read.push_back(graph.add_input(bytes_desc(700)));
    const ValueId a = add(graph, read), b = add(graph, read), c = add(graph, read);
    add_update(graph, {weight, a}, 1000);
    for (const auto& [left, right] : {std::pair(a, b), std::pair(b, c), std::pair(a, c)}) {
      graph.keep(add(graph, {left, right}));
    }
    costs = choices_of(std::vector<Cost>(7, {.width = 1, .duration = 2, .workspace_bytes = 300}));
    plan = make_plan(graph, costs, placed_by_hand, "by hand", 3, 3);
  }
};

/// Which operations come before which, by transitive closure over what the rules say, one rule at a time.
inline Relation closure(std::span<const Operation> sequence) {
  if (sequence.size() > kMaxOracle) throw Error("the oracle is for small sequences only");
  Relation relation(sequence.size());
  for (std::size_t b = 0; b < sequence.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (sequence[a].queue == sequence[b].queue || sequence[a].queue == kHost) relation[a].set(b);
      const bool meets = sequence[a].kind == Operation::Kind::record && sequence[b].kind == Operation::Kind::wait &&
                         sequence[a].event == sequence[b].event;
      const auto again = [&](const Operation& later) {
        return later.kind == Operation::Kind::record && later.event == sequence[b].event;
      };
      if (meets && std::none_of(sequence.begin() + a + 1, sequence.begin() + b, again)) relation[a].set(b);
    }
  }
  close(relation);
  return relation;
}

/// Whether two operations that touch the same bytes, one of them writing, are not ordered. All pairs.
inline bool has_race(std::span<const Operation> sequence) {
  const Relation before = closure(sequence);
  for (std::size_t b = 0; b < sequence.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      if (before[a][b]) continue;
      for (const Access& x : sequence[a].accesses) {
        for (const Access& y : sequence[b].accesses) {
          if ((x.writes || y.writes) && std::max(x.begin, y.begin) < std::min(x.end, y.end)) return true;
        }
      }
    }
  }
  return false;
}

/// Moves the first wait for this record to just before it. Empty if there is none.
inline std::vector<Operation> waiting_too_early(std::vector<Operation> sequence, std::size_t record) {
  const auto is_its_wait = [&](const Operation& operation) {
    return operation.kind == Operation::Kind::wait && operation.queue != kHost &&
           operation.event == sequence[record].event;
  };
  const auto begin = sequence.begin() + static_cast<std::ptrdiff_t>(record);
  const auto wait = std::find_if(begin, sequence.end(), is_its_wait);
  if (wait == sequence.end()) return {};
  std::rotate(begin, wait, wait + 1);
  return sequence;
}

}  // namespace braid::scheduler::testing
