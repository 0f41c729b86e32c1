// The baseline. It needs no waits, so it is what every other schedule must beat.

#include <algorithm>
#include <set>

#include "scheduler/policy.h"

namespace braid::scheduler {

namespace {

/// Nodes that free more bytes than they allocate run as soon as they are ready, as an update does once its gradient is
/// computed; the rest keep recording order. A greedy form of register allocation by Sethi and Ullman's rule, "The
/// generation of optimal code for arithmetic expressions" (1970).
class MemoryOrder {
 public:
  explicit MemoryOrder(const Problem& problem)
      : graph_(problem.graph),
        edges_(problem.edges),
        users_(graph_.value_count()),
        missing_(graph_.node_count()),
        key_of_(graph_.node_count()) {
    for (const NodeId id : graph_.launched_nodes()) {
      for (const ValueId root : read_values(id)) users_[root].push_back(id);
      missing_[id] = static_cast<std::int32_t>(edges_.predecessors(id).size());
    }
    for (const auto& users : users_) unread_.push_back(users.size());
  }

  std::vector<NodeId> run() {
    for (const NodeId id : graph_.launched_nodes()) {
      if (missing_[id] == 0) make_ready(id);
    }
    std::vector<NodeId> order;
    while (!ready_.empty()) {
      const NodeId node = ready_.begin()->second;
      ready_.erase(ready_.begin());
      missing_[node] = -1;  // it has run
      order.push_back(node);
      for (const ValueId root : read_values(node)) {
        if (--unread_[root] != 1) continue;
        // Only one reader is left, which would free it.
        const NodeId last = *std::ranges::find_if(users_[root], [&](NodeId user) { return missing_[user] >= 0; });
        if (missing_[last] == 0 && ready_.erase({key_of_[last], last}) > 0) make_ready(last);
      }
      for (const NodeId successor : edges_.successors(node)) {
        if (--missing_[successor] == 0) make_ready(successor);
      }
    }
    return order;
  }

 private:
  /// The values in the arena that a node reads, each once.
  std::vector<ValueId> read_values(NodeId id) const {
    std::vector<ValueId> roots;
    for (const ValueId input : graph_.inputs(id)) {
      const ValueId root = graph_.value(input).root;
      if (graph_.value(root).slot < 0 && std::ranges::find(roots, root) == roots.end()) roots.push_back(root);
    }
    return roots;
  }

  std::int64_t bytes(ValueId id) const { return static_cast<std::int64_t>(graph_.value(id).bytes()); }

  /// Bytes that it allocates minus those that it frees.
  std::int64_t growth(NodeId id) const {
    std::int64_t sum = 0;
    for (int i = 0; i < graph_.node(id).output_count; ++i) {
      if (graph_.value(graph_.output(id, i)).slot < 0) sum += bytes(graph_.output(id, i));
    }
    for (const ValueId root : read_values(id)) {
      if (unread_[root] == 1 && !graph_.value(root).kept) sum -= bytes(root);
    }
    return sum;
  }

  void make_ready(NodeId id) {
    key_of_[id] = std::min<std::int64_t>(growth(id), 0);
    ready_.insert({key_of_[id], id});
  }

  const StepGraph& graph_;
  const Edges& edges_;
  std::vector<std::vector<NodeId>> users_;  // per value: nodes that read it
  std::vector<std::size_t> unread_;         // per value: how many of them have not run
  std::vector<std::int32_t> missing_;       // per node: predecessors that have not run; -1 once it has
  std::vector<std::int64_t> key_of_;        // per ready node
  std::set<std::pair<std::int64_t, NodeId>> ready_;
};

}  // namespace

Schedule serial(const Problem& problem) {
  Schedule schedule;
  schedule.placements.resize(problem.graph.node_count());
  schedule.order = MemoryOrder(problem).run();
  for (const NodeId node : schedule.order) {
    const auto implementations = problem.costs.of(node);
    const auto fastest = std::ranges::min_element(implementations, {}, &Cost::duration);
    const double start = schedule.makespan;
    schedule.makespan += fastest->duration;
    schedule.placements[node] = {.implementation = static_cast<int>(fastest - implementations.begin()),
                                 .start = start,
                                 .finish = schedule.makespan};
  }
  return schedule;
}

}  // namespace braid::scheduler
