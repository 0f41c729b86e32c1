#include "scheduler/lowering/implementations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "scheduler/check/simulator.h"

namespace braid::scheduler {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();
/// Up to this many combinations of implementations, the search is exhaustive.
constexpr double kExhaustive = 4096;

class ImplementationChooser {
 public:
  ImplementationChooser(const Problem& problem, const Plan& plan)
      : problem_(problem),
        plan_(plan),
        best_(plan),
        order_(plan.commands, problem.graph.node_count()),
        shared_work_(shared_work(problem)),
        limits_(plan.commands.streams.size(), kUnlimited) {
    find_implementations();
    seconds_.resize(implementations_.size());
    work_.resize(implementations_.size());
    for (const NodeId node : nodes_) find_fastest(node);
  }

  bool has_choice() const { return !flexible_.empty(); }

  double bound() const { return std::max(longest_path(), total_work() / problem_.capacity); }

  bool fit(std::int64_t limit) {
    limit_ = limit;
    if (sum(slices_for([&](NodeId node) { return need(node); })) <= limit) consider();
    if (combinations() <= kExhaustive) {
      try_all(0, slices_for([&](NodeId node) { return implementations_[node].size() == 1 ? need(node) : 0; }));
    } else {
      find_levels();
      try_slices(0, 0);
    }
    return best_makespan_ < kInfinity;
  }

  std::int64_t least_workspace() const {
    return sum(slices_for([&](NodeId node) { return least_need(node); }));
  }

  Plan best() {
    take_simulated_times(problem_, best_);
    return std::move(best_);
  }

 private:
  int stream(NodeId node) const { return plan_.placements[node].stream; }
  const Cost& cost(NodeId node, int index) const { return problem_.costs.of(node, index); }
  const Cost& cost(NodeId node) const { return cost(node, plan_.placements[node].implementation); }
  /// Bytes of the arena for its workspace.
  std::int64_t need(NodeId node, int index) const { return arena_aligned(cost(node, index).workspace_bytes); }
  std::int64_t need(NodeId node) const { return need(node, plan_.placements[node].implementation); }
  std::int64_t least_need(NodeId node) const {
    std::int64_t least = kUnlimited;
    for (const int implementation : implementations_[node]) least = std::min(least, need(node, implementation));
    return least;
  }
  /// The slices that the streams need if their nodes need this much.
  template <class Need>
  std::vector<std::int64_t> slices_for(const Need& need_of) const {
    std::vector<std::int64_t> slices(plan_.commands.streams.size());
    for (const NodeId node : nodes_) slices[stream(node)] = std::max(slices[stream(node)], need_of(node));
    return slices;
  }
  static std::int64_t sum(const std::vector<std::int64_t>& slices) {
    return std::accumulate(slices.begin(), slices.end(), std::int64_t{0});
  }

  /// Finds the implementations that need no more units than the plan has reserved; first the plan's own, then the
  /// fastest.
  void find_implementations() {
    implementations_.resize(problem_.graph.node_count());
    for (std::size_t s = 0; s < order_.streams(); ++s) {
      for (const NodeId node : order_.launched(s)) {
        nodes_.push_back(node);
        const int own = plan_.placements[node].implementation;
        const auto implementations = problem_.costs.of(node);
        for (int i = 0; i < static_cast<int>(implementations.size()); ++i) {
          if (problem_.oversubscribes || implementations[i].width <= cost(node, own).width)
            implementations_[node].push_back(i);
        }
        const auto rank = [&](int implementation) {
          return std::pair(implementation != own, implementations[implementation].duration);
        };
        std::ranges::stable_sort(implementations_[node], {}, rank);
        if (implementations_[node].size() > 1) flexible_.push_back(node);
      }
    }
    std::ranges::sort(flexible_);
  }

  double combinations() const {
    double count = 1;
    for (const NodeId node : flexible_)
      count = std::min(count * static_cast<double>(implementations_[node].size()), 1e9);
    return count;
  }

  // Lower bound

  double longest_path() const {
    double longest = 0;
    std::vector<double> finish(seconds_.size());
    for (const NodeId node : order_.sequence()) {
      double start = 0;
      for (const NodeId before : order_.followed(node)) start = std::max(start, finish[before]);
      finish[node] = start + seconds_[node];
      longest = std::max(longest, finish[node]);
    }
    return longest;
  }

  double total_work() const {
    double total = 0;
    for (const NodeId node : nodes_) total += work_[node];
    return total;
  }

  /// The least time and work of a node within the largest slice that its stream may have.
  void find_fastest(NodeId node) {
    seconds_[node] = work_[node] = kInfinity;
    for (const int implementation : implementations_[node]) {
      if (need(node, implementation) > limits_[stream(node)]) continue;
      seconds_[node] = std::min(seconds_[node], cost(node, implementation).duration);
      work_[node] = std::min(work_[node], shared_work_[node][implementation]);
    }
  }

  // Search over nodes

  /// Keeps the plan if it is the fastest so far in simulation.
  void consider() {
    const double makespan = simulate(problem_, plan_, order_).makespan;
    if (makespan >= best_makespan_) return;
    best_makespan_ = makespan;
    best_ = plan_;
  }

  /// Tries every combination except those that need too much memory or cannot beat the best so far.
  void try_all(std::size_t index, const std::vector<std::int64_t>& slices) {
    if (sum(slices) > limit_ || bound() >= best_makespan_) return;
    if (index == flexible_.size()) return consider();
    const NodeId node = flexible_[index];
    const auto [own, seconds, work] = std::tuple(plan_.placements[node].implementation, seconds_[node], work_[node]);
    for (const int implementation : implementations_[node]) {
      plan_.placements[node].implementation = implementation;
      seconds_[node] = cost(node).duration;
      work_[node] = cost(node).duration * cost(node).width;
      std::vector<std::int64_t> larger = slices;
      larger[stream(node)] = std::max(larger[stream(node)], need(node));
      try_all(index + 1, larger);
    }
    std::tie(plan_.placements[node].implementation, seconds_[node], work_[node]) = std::tuple(own, seconds, work);
  }

  // Search over slices

  /// Finds the sizes of a stream's slice that are worth trying, largest first: each makes its nodes faster than the
  /// next does.
  void find_levels() {
    levels_.assign(plan_.commands.streams.size(), {});
    int active = 0;
    for (std::size_t s = 0; s < levels_.size(); ++s) {
      std::int64_t least = 0;
      std::set<std::int64_t> sizes;
      for (const NodeId node : order_.launched(s)) {
        least = std::max(least, least_need(node));
        for (const int implementation : implementations_[node]) sizes.insert(need(node, implementation));
      }
      sizes.insert(least);
      sizes.erase(sizes.begin(), sizes.find(least));
      levels_[s] = useful(s, sizes);
      if (levels_[s].size() > 1) ++active;
    }
    // The effort grows with the number of nodes. Keep it about equal for all sizes of graphs.
    const int leaves = std::clamp(200000 / (problem_.graph.node_count() + 1), 16, 256);
    const auto most = static_cast<std::size_t>(std::max(2.0, std::pow(leaves, 1.0 / std::max(active, 1))));
    std::size_t combinations = 1;
    for (auto& levels : levels_) {
      // With very many streams some get only the minimum.
      thin_out(levels, combinations * most <= static_cast<std::size_t>(leaves) ? most : 1);
      combinations *= levels.size();
    }
  }

  std::vector<std::int64_t> useful(std::size_t s, const std::set<std::int64_t>& sizes) const {
    std::vector<std::int64_t> levels;
    double fastest = kInfinity;
    for (const std::int64_t size : sizes) {
      double seconds = 0;
      for (const NodeId node : order_.launched(s)) seconds += cost(node, pick(node, size)).duration;
      if (seconds < fastest || levels.empty()) levels.push_back(size);
      fastest = std::min(fastest, seconds);
    }
    std::ranges::reverse(levels);
    return levels;
  }

  static void thin_out(std::vector<std::int64_t>& levels, std::size_t most) {
    if (levels.size() <= most) return;
    std::vector<std::int64_t> kept{levels.back()};
    for (std::size_t i = most - 1; i-- > 0;) kept.insert(kept.begin(), levels[i * (levels.size() - 1) / (most - 1)]);
    levels = std::move(kept);
  }

  /// The plan's own implementation if it fits into the slice, else the fastest that does.
  int pick(NodeId node, std::int64_t slice) const {
    for (const int implementation : implementations_[node]) {
      if (need(node, implementation) <= slice) return implementation;
    }
    return -1;
  }

  void set_limit(std::size_t s, std::int64_t limit) {
    limits_[s] = limit;
    for (const NodeId node : order_.launched(s)) find_fastest(node);
  }

  /// Chooses slices for the streams from `s` on; those before it have theirs, which use `used` bytes.
  void try_slices(std::size_t s, std::int64_t used) {
    if (bound() >= best_makespan_) return;
    if (s == levels_.size()) {
      const std::vector<Placement> own = plan_.placements;
      for (const NodeId node : nodes_) plan_.placements[node].implementation = pick(node, limits_[stream(node)]);
      consider();
      plan_.placements = own;
      return;
    }
    std::int64_t least_after = 0;
    for (std::size_t t = s + 1; t < levels_.size(); ++t) least_after += levels_[t].back();
    for (const std::int64_t level : levels_[s]) {
      if (level > limit_ - used - least_after) continue;
      set_limit(s, level);
      try_slices(s + 1, used + level);
    }
    set_limit(s, kUnlimited);
  }

  const Problem& problem_;
  Plan plan_;  // the one being tried
  Plan best_;
  const CommandOrder order_;
  const std::vector<std::vector<double>> shared_work_;
  double best_makespan_ = kInfinity;
  std::int64_t limit_ = kUnlimited;

  std::vector<NodeId> nodes_, flexible_;  // launched; and those of them with several implementations
  std::vector<std::vector<int>> implementations_;
  std::vector<std::int64_t> limits_;               // per stream: the largest slice it may have
  std::vector<double> seconds_, work_;             // per node: the least under the limits
  std::vector<std::vector<std::int64_t>> levels_;  // per stream: sizes to try, descending
};

}  // namespace

std::int64_t least_workspace_bytes(const Problem& problem, const Plan& plan) {
  return ImplementationChooser(problem, plan).least_workspace();
}

bool fit_implementations(const Problem& problem, Plan& plan, std::int64_t limit) {
  ImplementationChooser chooser(problem, plan);
  if (!chooser.fit(limit)) return false;
  plan = chooser.best();
  return true;
}

double implementations_bound(const Problem& problem, const Plan& plan) {
  const ImplementationChooser chooser(problem, plan);
  return chooser.has_choice() ? chooser.bound() : simulate(problem, plan).makespan;
}

}  // namespace braid::scheduler
