// Stages after IOS (Ding et al., "IOS: inter-operator scheduler for CNN acceleration", 2021). A stage is a set of
// nodes; its groups, the connected parts of it, run at the same time on a stream each, the nodes of a group one after
// another. The last stage of a set of nodes is an ending of it: no edge leads from it to the rest. Dynamic programming
// over endings finds the cheapest sequence of stages: cost(S) = min over endings E of cost(S - E) + stage(E); pruning
// leaves only endings of few and small groups. The sets of a whole step are far too many, so the graph is cut into
// windows of consecutive nodes in recording order, where few edges cross, as blocks of a network follow one another. A
// window that still has too many endings is made smaller.
//
// Stages only decide order and streams: nothing separates them, and a node waits only for those it depends on.

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <ranges>

#include "scheduler/policies/timeline.h"

namespace braid::scheduler {
namespace {

constexpr int kGroupNodes = 3;     // most nodes of a group: r in the paper
constexpr int kGroups = 8;         // most groups of a stage: s in the paper
constexpr int kWindowNodes = 12;   // most nodes of a window
constexpr int kMaxEndings = 4000;  // most endings looked at in one window; windows of 7 nodes have fewer
constexpr double kImpossible = std::numeric_limits<double>::infinity();
constexpr double kNotComputed = -1;

/// Nodes of a window, a bit each.
using Set = std::uint32_t;

Set only(int node) { return Set{1} << node; }
int first_of(Set set) { return std::countr_zero(set); }
int last_of(Set set) { return std::bit_width(set) - 1; }

class Window {
 public:
  Window(const Problem& problem, std::span<const NodeId> nodes)
      : capacity_(problem.capacity), most_groups_(std::min(kGroups, problem.streams)), all_(only(nodes.size()) - 1) {
    for (int i = 0; i < static_cast<int>(nodes.size()); ++i) {
      const Cost& cost = problem.costs.of(nodes[i], equal_share(problem, nodes[i]));
      Local& node = nodes_[i];
      node = {.duration = cost.duration, .work = cost.width * cost.duration};
      for (const NodeId predecessor : problem.edges.predecessors(nodes[i])) {
        if (predecessor < nodes[0]) continue;
        const auto j = static_cast<int>(std::ranges::lower_bound(nodes, predecessor) - nodes.begin());
        node.ancestors |= nodes_[j].ancestors | only(j);
        node.neighbours |= only(j);
        nodes_[j].neighbours |= only(i);
      }
    }
    best_.resize(all_ + 1);
    best_[0].cost = 0;
    stage_costs_.assign(all_ + 1, kNotComputed);
  }

  /// The best stages, first to last; nothing if there are too many endings.
  std::optional<std::vector<Set>> stages() {
    solve(all_);
    if (endings_ > kMaxEndings) return std::nullopt;
    std::vector<Set> stages;
    for (Set rest = all_; rest != 0; rest &= ~best_[rest].ending) stages.push_back(best_[rest].ending);
    std::ranges::reverse(stages);
    return stages;
  }

  /// The groups of a stage, the longest first.
  std::vector<Set> groups(Set stage) const {
    std::vector<Set> groups;
    for (Set rest = stage; rest != 0; rest &= ~groups.back()) groups.push_back(group_of(first_of(rest), stage));
    std::ranges::stable_sort(groups, std::greater<>(), [&](Set group) { return total(group, &Local::duration); });
    return groups;
  }

 private:
  struct Local {
    double duration = 0;
    double work = 0;
    Set ancestors = 0;   // in the window
    Set neighbours = 0;  // predecessors and successors in it
  };
  struct Best {
    double cost = kNotComputed;
    Set ending = 0;
  };

  double solve(Set set) {
    if (best_[set].cost == kNotComputed) {
      best_[set].cost = kImpossible;
      try_endings(set, set, 0);
    }
    return best_[set].cost;
  }

  /// Tries the endings of `set` that consist of `ending` and any of `open`, the nodes all of whose successors may still
  /// be in it.
  void try_endings(Set set, Set open, Set ending) {
    if (endings_ > kMaxEndings) return;
    if (open == 0) {
      ++endings_;
      const double latency = stage_cost(ending);
      if (latency == kImpossible) return;
      const double cost = solve(set & ~ending) + latency;
      if (best_[set].ending == 0 || cost < best_[set].cost) best_[set] = {cost, ending};
      return;
    }
    const int node = last_of(open);
    open &= ~only(node);
    const Set with_node = ending | only(node);
    if (std::popcount(with_node) <= kGroupNodes * most_groups_ &&
        std::popcount(group_of(node, with_node)) <= kGroupNodes) {
      try_endings(set, open, with_node);
    }
    try_endings(set, open & ~nodes_[node].ancestors, ending);
  }

  /// The connected component of the node in `set`.
  Set group_of(int node, Set set) const {
    Set group = only(node);
    for (Set fresh = group; fresh != 0;) {
      const Set more = nodes_[first_of(fresh)].neighbours & set & ~group;
      fresh = (fresh & (fresh - 1)) | more;
      group |= more;
    }
    return group;
  }

  double total(Set set, double Local::*what) const {
    double sum = 0;
    for (; set != 0; set &= set - 1) sum += nodes_[first_of(set)].*what;
    return sum;
  }

  /// How long a stage takes: as long as its longest group, and no less than its work does on the whole capacity.
  double stage_cost(Set stage) {
    double& cost = stage_costs_[stage];
    if (cost != kNotComputed) return cost;
    cost = total(stage, &Local::work) / capacity_;
    int groups = 0;
    for (Set rest = stage; rest != 0; ++groups) {
      const Set group = group_of(first_of(rest), stage);
      cost = std::max(cost, total(group, &Local::duration));
      rest &= ~group;
    }
    if (groups < 1 || groups > most_groups_) cost = kImpossible;
    return cost;
  }

  const int capacity_;
  const int most_groups_;
  const Set all_;
  std::array<Local, kWindowNodes> nodes_;
  std::vector<Best> best_;           // per set: its last stage, and the cost of all stages
  std::vector<double> stage_costs_;  // per set
  int endings_ = 0;
};

/// The number of edges that cross each place between nodes: cuts are made where few do.
std::vector<int> count_crossings(const Edges& edges, std::span<const NodeId> nodes) {
  std::vector<int> crossings(nodes.size() + 1);
  int open = 0;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    crossings[i] = open;
    open += static_cast<int>(edges.successors(nodes[i]).size()) - static_cast<int>(edges.predecessors(nodes[i]).size());
  }
  return crossings;
}

/// The end of a window of at most `limit` nodes: in its second half, the last of the places that the fewest edges
/// cross.
std::size_t window_end(std::span<const int> crossings, std::size_t begin, std::size_t limit) {
  if (begin + limit >= crossings.size() - 1) return crossings.size() - 1;
  const auto candidates = crossings.subspan(begin + limit / 2 + 1, limit - limit / 2);
  const auto fewest = std::min_element(candidates.rbegin(), candidates.rend());
  return begin + limit / 2 + static_cast<std::size_t>(candidates.rend() - fewest);
}

/// Places the groups of a stage, each on a separate stream: one that ran a predecessor of the group last, if there is
/// one, or else the one that is free first.
void place(const Problem& problem, std::span<const NodeId> nodes, std::span<const Set> groups, Timeline& timeline) {
  std::vector<bool> used(problem.streams);
  for (const Set group : groups) {
    const auto before = problem.edges.predecessors(nodes[first_of(group)]);
    const auto preference = [&](int stream) {
      const bool follows = std::ranges::binary_search(before, timeline.last(stream));
      return std::tuple(used[stream], !follows, timeline.free_at(stream));
    };
    const int best = std::ranges::min(std::views::iota(0, problem.streams), {}, preference);
    used[best] = true;
    for (Set rest = group; rest != 0; rest &= rest - 1) timeline.place(nodes[first_of(rest)], best);
  }
}

}  // namespace

Schedule stages(const Problem& problem) {
  const std::vector<NodeId> launched = problem.graph.launched_nodes();
  const std::vector<int> crossings = count_crossings(problem.edges, launched);
  Timeline timeline(problem);
  std::size_t limit = kWindowNodes;
  for (std::size_t begin = 0; begin < launched.size();) {
    const std::size_t end = window_end(crossings, begin, limit);
    const auto nodes = std::span(launched).subspan(begin, end - begin);
    Window window(problem, nodes);
    const auto stages = window.stages();
    if (!stages) {
      limit = nodes.size() - 1;
      continue;
    }
    for (const Set stage : *stages) place(problem, nodes, window.groups(stage), timeline);
    limit = std::min<std::size_t>(limit + 1, kWindowNodes);
    begin = end;
  }
  return std::move(timeline).finish();
}

}  // namespace braid::scheduler
