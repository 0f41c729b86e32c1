#pragma once
// The same questions as the scheduler's, answered by brute force: which nodes a plan orders, by transitive closure over
// its commands, and whether it is safe, by comparing all pairs of values. Slow, and too simple to be wrong in the same
// way.

#include <algorithm>
#include <bitset>
#include <vector>

#include "scheduler/plan.h"

namespace braid::scheduler::testing {

constexpr std::size_t kMaxOracle = 1024;
using Row = std::bitset<kMaxOracle>;
using Relation = std::vector<Row>;  // relation[a][b]: a comes before b

inline void close(Relation& relation) {
  for (std::size_t via = 0; via < relation.size(); ++via) {
    for (Row& row : relation) {
      if (row[via]) row |= relation[via];
    }
  }
}

inline bool has_cycle(const Relation& relation) {
  for (std::size_t i = 0; i < relation.size(); ++i) {
    if (relation[i][i]) return true;
  }
  return false;
}

/// Which nodes end before which start, for a plan whose indices are in range. Cyclic if the plan deadlocks.
inline Relation ordered_nodes(const StepGraph& graph, const Plan& plan, bool& deadlock) {
  struct Place {
    Command command;
    std::size_t stream;
  };
  std::vector<Place> commands;
  for (std::size_t s = 0; s < plan.commands.streams.size(); ++s) {
    for (const Command& command : plan.commands.streams[s]) commands.push_back({command, s});
  }
  if (commands.size() > kMaxOracle) throw Error("the oracle is for small plans only");
  Relation relation(commands.size());
  for (std::size_t i = 0; i < commands.size(); ++i) {
    for (std::size_t j = 0; j < commands.size(); ++j) {
      const auto [a, b] = std::pair(commands[i].command, commands[j].command);
      const bool in_stream = i + 1 == j && commands[i].stream == commands[j].stream;
      const bool by_event = a.kind == Command::Kind::record && b.kind == Command::Kind::wait && a.index == b.index;
      if (in_stream || by_event) relation[i].set(j);
    }
  }
  close(relation);
  deadlock = has_cycle(relation);

  Relation nodes(static_cast<std::size_t>(graph.node_count()));
  for (std::size_t i = 0; i < commands.size(); ++i) {
    for (std::size_t j = 0; j < commands.size(); ++j) {
      if (!relation[i][j] || commands[i].command.kind != Command::Kind::launch) continue;
      if (commands[j].command.kind == Command::Kind::launch)
        nodes[commands[i].command.index].set(commands[j].command.index);
    }
  }
  return nodes;
}

/// What the graph itself demands, from the definition: readers after writers, next versions after readers.
inline Relation required_order(const StepGraph& graph) {
  Relation required(static_cast<std::size_t>(graph.node_count()));
  const auto uses = [&](NodeId id, ValueId root) {
    if (graph.node(id).is_view) return false;
    if (graph.value(root).producer == id) return true;
    for (const ValueId input : graph.inputs(id)) {
      if (graph.value(input).root == root) return true;
    }
    return false;
  };
  for (ValueId value = 0; value < graph.value_count(); ++value) {
    if (graph.value(value).root != value) continue;
    const NodeId producer = graph.value(value).producer;
    const ValueId previous = graph.value(value).previous;
    for (NodeId id = 0; id < graph.node_count(); ++id) {
      if (producer == kNoNode || id == producer) continue;
      if (uses(id, value)) required[producer].set(id);
      if (previous != kNoValue && uses(id, previous)) required[id].set(producer);
    }
  }
  return required;
}

/// Whether a plan is safe. Says no more than yes or no.
class SafetyOracle {
 public:
  SafetyOracle(const StepGraph& graph, const Costs& costs, const Plan& plan)
      : graph_(graph), costs_(costs), plan_(plan) {}

  bool safe() {
    if (!commands_are_complete()) return false;
    bool deadlock = false;
    before_ = ordered_nodes(graph_, plan_, deadlock);
    if (deadlock) return false;
    for (const auto& [a, b] : plan_.resource_edges) {
      if (!before_[a][b]) return false;
    }
    const Relation required = required_order(graph_);
    for (std::size_t a = 0; a < required.size(); ++a) {
      if ((required[a] & ~before_[a]).any()) return false;
    }
    return bytes_are_safe() && workspaces_are_safe();
  }

 private:
  bool commands_are_complete() const {
    std::vector<int> launched(static_cast<std::size_t>(graph_.node_count())),
        recorded(static_cast<std::size_t>(plan_.commands.events));
    for (std::size_t s = 0; s < plan_.commands.streams.size(); ++s) {
      for (const auto& [kind, index] : plan_.commands.streams[s]) {
        const std::int32_t limit = kind == Command::Kind::launch ? graph_.node_count() : plan_.commands.events;
        if (index < 0 || index >= limit) return false;
        if (kind == Command::Kind::launch && plan_.placements[index].stream != static_cast<int>(s)) return false;
        if (kind == Command::Kind::launch) ++launched[index];
        if (kind == Command::Kind::record) ++recorded[index];
      }
    }
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (launched[id] != (graph_.node(id).is_view ? 0 : 1)) return false;
      for (NodeId other = 0; other < id; ++other) {
        if (costs_.link(id) == kNoLink || costs_.link(id) != costs_.link(other)) continue;
        if (plan_.placements[id].stream != plan_.placements[other].stream) return false;
      }
    }
    return std::ranges::all_of(recorded, [](int count) { return count == 1; });
  }

  std::int64_t begin(ValueId id) const { return plan_.offsets[id]; }
  std::int64_t end(ValueId id) const { return plan_.offsets[id] + static_cast<std::int64_t>(graph_.value(id).bytes()); }

  bool bytes_are_safe() const {
    for (ValueId b = 0; b < graph_.value_count(); ++b) {
      const Value& value = graph_.value(b);
      if (value.root != b) {
        if (begin(b) != begin(value.root)) return false;
        continue;
      }
      if (value.slot >= 0 && begin(b) != -1) return false;
      if (value.slot < 0 && (begin(b) < 0 || end(b) > plan_.arena_bytes || begin(b) % kArenaAlignment != 0))
        return false;
      for (ValueId a = 0; a < b; ++a) {
        if (graph_.value(a).root != a) continue;
        if (value.slot >= 0) {
          if (graph_.value(a).slot == value.slot && !may_follow(a, b)) return false;
        } else if (graph_.value(a).slot < 0 && std::max(begin(a), begin(b)) < std::min(end(a), end(b))) {
          if (!may_follow(a, b) && !may_follow(b, a)) return false;
        }
      }
    }
    return true;
  }

  /// Whether b may be written over a: no node uses a any more.
  bool may_follow(ValueId a, ValueId b) const {
    const NodeId writer = graph_.value(b).producer;
    if (writer == kNoNode || graph_.value(a).kept) return false;
    for (NodeId id = 0; id < graph_.node_count(); ++id) {
      if (graph_.node(id).is_view) continue;
      int reads = 0;
      for (const ValueId input : graph_.inputs(id)) reads += graph_.value(input).root == a;
      if (reads == 0 && graph_.value(a).producer != id) continue;
      const bool version = graph_.value(b).previous == a;
      const bool in_place = graph_.value(b).reuses == a && begin(a) == begin(b) && reads == 1;
      if (id == writer ? !version && !in_place : !before_[id][writer]) return false;
    }
    return true;
  }

  bool workspaces_are_safe() const {
    for (std::size_t s = 0; s < plan_.workspaces.size(); ++s) {
      const std::int64_t offset = plan_.workspaces[s].offset, bytes = plan_.workspaces[s].bytes;
      if (offset < 0 || bytes < 0 || offset + bytes > plan_.arena_bytes || offset % kArenaAlignment != 0) return false;
      const auto overlaps = [&](std::int64_t from, std::int64_t to) {
        return std::max(offset, from) < std::min(offset + bytes, to);
      };
      for (std::size_t t = 0; t < s; ++t) {
        const ArenaSlice& other = plan_.workspaces[t];
        if (overlaps(other.offset, other.offset + other.bytes)) return false;
      }
      for (ValueId id = 0; id < graph_.value_count(); ++id) {
        if (graph_.value(id).slot < 0 && overlaps(begin(id), end(id))) return false;
      }
      for (const auto& [kind, index] : plan_.commands.streams[s]) {
        if (kind != Command::Kind::launch) continue;
        const Cost& cost = costs_.of(index, plan_.placements[index].implementation);
        if (static_cast<std::int64_t>(cost.workspace_bytes) > bytes) return false;
      }
    }
    return true;
  }

  const StepGraph& graph_;
  const Costs& costs_;
  const Plan& plan_;
  Relation before_;
};

}  // namespace braid::scheduler::testing
