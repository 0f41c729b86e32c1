#pragma once
// The least makespan possible under the capacity model, as an oracle for small graphs: branch and bound. Time moves
// from finish to finish; at each of these events any subset of the ready nodes may start, with any implementation that
// fits, or none: a deliberate wait can pay off. A branch is cut where
//   - its lower bound (paths, work over capacity, durations over streams and on links) is no better than the best
//     makespan known;
//   - another branch has started the same nodes, and whatever this one could do next, that one could do no later (the
//     cutset rule of Demeulemeester and Herroelen, "A branch-and-bound procedure for the multiple resource-constrained
//     project scheduling problem", 1992).

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scheduler/policy.h"

namespace braid::scheduler::testing {

class LeastMakespan {
 public:
  static constexpr int kMostNodes = 12;

  /// Throws Error if the graph would take too long.
  explicit LeastMakespan(const Problem& problem)
      : problem_(problem), best_(serial(problem).makespan), on_links_(static_cast<std::size_t>(problem.links)) {
    const std::vector<double> levels = bottom_levels(problem.edges, problem.costs);
    std::vector<int> task_of(levels.size(), -1);
    for (const NodeId node : problem.graph.launched_nodes()) {
      BRAID_CHECK(count() < kMostNodes, Error, "the oracle is for at most ", kMostNodes, " nodes");
      task_of[static_cast<std::size_t>(node)] = count();
      by_level_.push_back(count());
      const double fastest = problem.costs.fastest(node);
      Task task{.useful = useful_implementations(node),
                .tail = levels[static_cast<std::size_t>(node)] - fastest,
                .fastest = fastest,
                .least_work = problem.costs.least_work(node),
                .link = problem.costs.link(node)};
      for (const NodeId before : problem.edges.predecessors(node)) {
        task.predecessors |= only(task_of[static_cast<std::size_t>(before)]);
      }
      if (task.link != kNoLink) on_links_[static_cast<std::size_t>(task.link)] |= only(count());
      starts_.push_back(count());
      tasks_.push_back(std::move(task));
    }
    for (const Set tasks : on_links_) on_any_link_ |= tasks;
    std::ranges::stable_sort(by_level_, std::greater{}, [&](int i) { return at(i).tail + at(i).fastest; });
  }

  /// Microseconds.
  double find() {
    search({.free_units = problem_.capacity});
    return best_;
  }
  /// When the tasks of the schedule found start; in recording order from 0 if none is faster than the serial one.
  const std::vector<double>& starts() const { return starts_; }

 private:
  using Set = std::uint32_t;  // tasks, a bit each

  struct Task {
    std::vector<Cost> useful;  // implementations that no other beats in both width and duration
    double tail = 0;           // longest path after it
    double fastest = 0, least_work = 0;
    int link = kNoLink;
    Set predecessors = 0;
  };
  struct State {
    double now = 0;
    Set started = 0, finished = 0;
    int free_units = 0;
    bool progress = false;  // something has started since the last event
    std::array<double, kMostNodes> start{}, finish{};
    std::array<int, kMostNodes> width{};

    Set running() const { return started & ~finished; }
  };

  static Set only(int task) { return Set{1} << static_cast<unsigned>(task); }
  static bool contains(Set set, int task) { return (set & only(task)) != 0; }
  const Task& at(int task) const { return tasks_[static_cast<std::size_t>(task)]; }
  int count() const { return static_cast<int>(tasks_.size()); }

  std::vector<Cost> useful_implementations(NodeId node) const {
    std::vector<Cost> useful;
    for (const Cost& cost : problem_.costs.of(node)) {  // in ascending width
      if (useful.empty() || cost.duration < useful.back().duration) useful.push_back(cost);
    }
    return useful;
  }

  /// Whether a task is ready, and a stream or its link is free.
  bool can_start(const State& state, int task) const {
    if (contains(state.started, task) || (at(task).predecessors & ~state.finished) != 0) return false;
    const int link = at(task).link;
    return link == kNoLink ? state.free_units > 0 && std::popcount(state.running() & ~on_any_link_) < problem_.streams
                           : (state.running() & on_links_[static_cast<std::size_t>(link)]) == 0;
  }

  /// Tries everything that may start at an event. A state that has only waited is not compared: the one it came from
  /// would dominate it, and the schedules that begin by waiting would be lost.
  void search(State state) {
    if (state.started == only(count()) - 1) {
      if (std::ranges::max(state.finish) < best_) {
        best_ = std::ranges::max(state.finish);
        starts_.assign(state.start.begin(), state.start.begin() + count());
      }
      return;
    }
    if (lower_bound(state) >= best_ * (1 - 1e-12)) return;
    if (std::exchange(state.progress, false) && is_dominated(state)) return;
    decide(state, 0);
  }

  /// Tries all starts of the ready tasks from by_level_[next] on, and then moves on to the next event.
  void decide(const State& state, std::size_t next) {
    while (next < by_level_.size() && !can_start(state, by_level_[next])) ++next;
    if (next == by_level_.size()) return advance(state);
    const int task = by_level_[next];
    for (const Cost& cost : at(task).useful) {
      if (cost.width > state.free_units) continue;
      State started = state;
      started.started |= only(task);
      started.progress = true;
      started.free_units -= cost.width;
      started.start[static_cast<std::size_t>(task)] = state.now;
      started.finish[static_cast<std::size_t>(task)] = state.now + cost.duration;
      started.width[static_cast<std::size_t>(task)] = cost.width;
      decide(started, next + 1);
    }
    decide(state, next + 1);
  }

  void advance(State state) {
    if (state.running() == 0) return;
    double next = best_;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (contains(state.running(), static_cast<int>(i))) next = std::min(next, state.finish[i]);
    }
    if (next >= best_) return;
    state.now = next;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!contains(state.running(), static_cast<int>(i)) || state.finish[i] > next) continue;
      state.finished |= only(static_cast<int>(i));
      state.free_units += state.width[i];
    }
    search(state);
  }

  double lower_bound(const State& state) const {
    double bound = 0, work = 0, durations = 0;
    std::array<double, kMostNodes> finish{};
    std::vector<double> on_links(on_links_.size());
    for (std::size_t i = 0; i < tasks_.size(); ++i) {  // recording order is topological
      const Task& task = tasks_[i];
      double left = task.fastest;
      if (contains(state.started, static_cast<int>(i))) {
        finish[i] = state.finish[i];
        left = std::max(0.0, finish[i] - state.now);
        work += left * state.width[i];
      } else {
        double start = state.now;
        for (std::size_t j = 0; j < i; ++j) {
          if (contains(task.predecessors, static_cast<int>(j))) start = std::max(start, finish[j]);
        }
        finish[i] = start + task.fastest;
        work += task.least_work;
      }
      (task.link == kNoLink ? durations : on_links[static_cast<std::size_t>(task.link)]) += left;
      bound = std::max(bound, finish[i] + task.tail);
    }
    for (const double left : on_links) bound = std::max(bound, state.now + left);
    return std::max({bound, state.now + work / problem_.capacity, state.now + durations / problem_.streams});
  }

  /// Whether an earlier state can do everything that this one can, no later. If not, remembers this one.
  bool is_dominated(const State& state) {
    std::vector<State>& known = known_[state.started];
    if (std::ranges::any_of(known, [&](const State& other) { return dominates(other, state); })) return true;
    std::erase_if(known, [&](const State& other) { return dominates(state, other); });
    known.push_back(state);
    return false;
  }

  /// Whether `a` dominates `b`, for states that have started the same nodes.
  static bool dominates(const State& a, const State& b) {
    if (a.now > b.now) return false;
    for (Set left = b.started & ~a.finished; left != 0; left &= left - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(left));
      if (a.finish[i] <= b.now) continue;  // it holds no units any more
      if (a.finish[i] > b.finish[i] || a.width[i] > b.width[i]) return false;
    }
    return true;
  }

  const Problem& problem_;
  double best_;
  std::vector<double> starts_;  // per task, of the best schedule known
  std::vector<Task> tasks_;
  std::vector<int> by_level_;  // the longest path ahead first: good schedules are found early
  std::vector<Set> on_links_;  // per link: its tasks
  Set on_any_link_ = 0;
  std::unordered_map<Set, std::vector<State>> known_;  // by what has started
};

inline double least_makespan(const Problem& problem) { return LeastMakespan(problem).find(); }

}  // namespace braid::scheduler::testing
