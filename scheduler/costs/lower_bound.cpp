// A lower bound for the makespan of every plan. A set of nodes that can start no earlier than h, and after which at
// least t is left, has to fit in between: makespan >= h + room for them + t (Fernandez and Bussell, "Bounds on the
// number of processors and time for multiprocessor optimal schedules", 1973). The room for a set is the largest of its
// work over the capacity, its durations over the streams, and, as of one more node than there are streams two must
// share one, the sum of the two shortest of these; and of nodes on one link the sum of their durations. The same
// argument, applied to all that a node has to wait for, says how early it can start: so what lies between a fork and a
// join is bounded part by part.

#include <algorithm>
#include <utility>

#include "scheduler/problem.h"

namespace braid::scheduler {
namespace {

/// The most windows and predecessors examined: bounds the time spent on large graphs.
constexpr int kMostLooks = 1 << 20;

/// The least time that a growing set of nodes needs.
class Room {
 public:
  Room(int capacity, int streams) : capacity_(capacity), streams_(streams) {}

  double add(double duration, double work, int link) {
    work_ += work;
    if (link != kNoLink) {
      const auto place = static_cast<std::size_t>(link);
      if (on_links_.size() <= place) on_links_.resize(place + 1);
      on_links_[place] += duration;
      return std::max(on_links_[place], work_ / capacity_);
    }
    durations_ += duration;
    const auto shared = static_cast<std::size_t>(streams_) + 1;
    longest_.insert(std::ranges::upper_bound(longest_, duration, std::greater{}), duration);
    if (longest_.size() > shared) longest_.pop_back();
    const double two = longest_.size() == shared ? longest_[shared - 1] + longest_[shared - 2] : 0;
    return std::max({durations_ / streams_, work_ / capacity_, two});
  }

 private:
  int capacity_, streams_;
  double durations_ = 0, work_ = 0;
  std::vector<double> longest_;   // durations of one more node than there are streams
  std::vector<double> on_links_;  // durations
};

class Bounds {
 public:
  explicit Bounds(const Problem& problem)
      : edges_(problem.edges),
        costs_(problem.costs),
        capacity_(problem.capacity),
        streams_(std::min(problem.streams, problem.costs.node_count())) {
    for (NodeId node = 0; node < problem.costs.node_count(); ++node) fastest_.push_back(problem.costs.fastest(node));
    for (const auto& implementations : shared_work(problem)) work_.push_back(std::ranges::min(implementations));
  }

  double makespan() {
    if (fastest_.empty()) return 0;
    std::vector<double> heads(fastest_.size()), tails(fastest_.size());
    begin_walks();
    for (NodeId node = 0; node < std::ssize(heads); ++node) {
      heads[node] = head(node, heads, [&](NodeId n) { return edges_.predecessors(n); });
    }
    begin_walks();
    for (auto node = static_cast<NodeId>(tails.size()) - 1; node >= 0; --node) {
      tails[node] = head(node, tails, [&](NodeId n) { return edges_.successors(n); });
    }
    return windows(heads, tails);
  }

 private:
  void begin_walks() {
    by_head_.clear();
    seen_from_.assign(fastest_.size(), kNoNode);
    visited_from_ = seen_from_;
  }

  int looks() const { return 1 + kMostLooks / static_cast<int>(fastest_.size()); }

  /// When a node can start, given the starts of its predecessors: walks back from it to ever earlier nodes.
  template <class Before>
  double head(NodeId node, const std::vector<double>& heads, const Before& before) {
    double earliest = 0;
    for (const NodeId b : before(node)) earliest = std::max(earliest, heads[b] + fastest_[b]);
    if (before(node).size() > 1) earliest = std::max(earliest, head_by_room(node, heads, before));
    const std::pair head(earliest, node);
    by_head_.insert(std::ranges::upper_bound(by_head_, head), head);  // mostly at the end
    return earliest;
  }

  /// The walk visits next the node with the latest head of those that were seen: the last one in `by_head_`.
  template <class Before>
  double head_by_room(NodeId node, const std::vector<double>& heads, const Before& before) {
    auto end = by_head_.begin();  // what was seen comes before it
    const auto see = [&](NodeId n) {
      for (const NodeId b : before(n)) {
        if (std::exchange(seen_from_[b], node) == node) continue;
        const std::pair head(heads[b], b);
        if (end == by_head_.begin() || head > *std::prev(end)) end = std::ranges::upper_bound(by_head_, head);
      }
    };
    see(node);
    Room room(capacity_, streams_);
    double earliest = 0;
    for (int left = std::min(kMostAncestors, looks()); left > 0; --left) {
      const auto is_next = [&](NodeId n) { return seen_from_[n] == node && visited_from_[n] != node; };
      while (end != by_head_.begin() && !is_next(std::prev(end)->second)) --end;
      if (end == by_head_.begin()) break;
      const auto [start, b] = *std::prev(end);
      visited_from_[b] = node;
      earliest = std::max(earliest, start + room.add(fastest_[b], work_[b], costs_.link(b)));
      see(b);
    }
    return earliest;
  }

  double windows(const std::vector<double>& heads, const std::vector<double>& tails) const {
    std::vector<double> starts(heads);
    std::ranges::sort(starts);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    std::vector<NodeId> by_tail(fastest_.size());
    for (std::size_t i = 0; i < by_tail.size(); ++i) by_tail[i] = static_cast<NodeId>(i);
    std::ranges::stable_sort(by_tail, std::greater{}, [&](NodeId node) { return tails[node]; });

    double bound = 0;
    const std::size_t step = 1 + starts.size() / std::min(kMostWindows, looks());
    for (std::size_t i = 0; i < starts.size(); i += step) {
      Room room(capacity_, streams_);
      for (const NodeId node : by_tail) {
        if (heads[node] < starts[i]) continue;
        bound = std::max({bound, starts[i] + room.add(fastest_[node], work_[node], costs_.link(node)) + tails[node],
                          heads[node] + fastest_[node] + tails[node]});
      }
    }
    return bound;
  }

  static constexpr int kMostAncestors = 128, kMostWindows = 64;

  const Edges& edges_;
  const Costs& costs_;
  int capacity_, streams_;
  std::vector<double> fastest_, work_;
  std::vector<std::pair<double, NodeId>> by_head_;  // nodes so far, the latest head last
  std::vector<NodeId> seen_from_, visited_from_;    // per node: the last node whose walk back saw, visited it
};

}  // namespace

LowerBound lower_bound(const Problem& problem) {
  LowerBound bound;
  for (const double level : bottom_levels(problem.edges, problem.costs)) bound.depth = std::max(bound.depth, level);
  for (NodeId node = 0; node < problem.costs.node_count(); ++node) bound.work += problem.costs.least_work(node);
  bound.bound = std::max(bound.depth, Bounds(problem).makespan());
  return bound;
}

std::vector<std::vector<double>> shared_work(const Problem& problem) {
  // Without oversubscription every node has its units to itself, and none is faster than alone.
  std::unordered_map<std::int32_t, double> factors;
  if (problem.oversubscribes) factors = problem.interference.least_factors(problem.all_streams() - 1);
  std::vector<std::vector<double>> work(problem.costs.node_count());
  for (NodeId node = 0; node < problem.costs.node_count(); ++node) {
    for (const Cost& cost : problem.costs.of(node)) {
      const auto found = factors.find(problem.interference.kind(node, static_cast<int>(work[node].size())));
      work[node].push_back(cost.width * cost.duration * (found == factors.end() ? 1 : found->second));
    }
  }
  return work;
}

}  // namespace braid::scheduler
