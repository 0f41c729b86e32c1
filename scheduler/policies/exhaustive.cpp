// Branch and bound for the least makespan under the capacity model, as an oracle for small graphs. Time moves from
// finish to finish; at each of these events any subset of the ready nodes may start, with any implementation that fits,
// or none: a deliberate wait can pay off. A branch is cut where
//   - its lower bound (paths, work over capacity, durations over streams and on links) is no better than the best
//     schedule known;
//   - another branch has started the same nodes, and whatever this one could do next, that one could do no later (the
//     cutset rule of Demeulemeester and Herroelen, "A branch-and-bound procedure for the multiple resource-constrained
//     project scheduling problem", 1992).

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_map>
#include <utility>

#include "scheduler/policies/list_scheduler.h"

namespace braid::scheduler {
namespace {

using Mask = std::uint32_t;  // a set of tasks

class BranchAndBound {
 public:
  explicit BranchAndBound(const Problem& problem)
      : problem_(problem), best_(serial(problem)), on_links_(static_cast<std::size_t>(problem.links)) {
    const std::vector<double> levels = bottom_levels(problem.edges, problem.costs);
    std::vector<int> task_of(problem.graph.node_count(), -1);
    for (const NodeId node : best_.order) {
      task_of[node] = count();
      by_level_.push_back(count());
      Task task{.node = node,
                .implementations = useful_implementations(node),
                .tail = levels[node] - problem.costs.fastest(node)};
      for (const NodeId before : problem.edges.predecessors(node)) task.predecessors |= Mask{1} << task_of[before];
      task.least_work = problem.costs.least_work(node);
      task.fastest = problem.costs.fastest(node);
      task.link = problem.costs.link(node);
      if (task.link != kNoLink) on_links_[static_cast<std::size_t>(task.link)] |= Mask{1} << count();
      tasks_.push_back(std::move(task));
    }
    for (const Mask tasks : on_links_) on_any_link_ |= tasks;
    std::ranges::stable_sort(by_level_, std::greater{}, [&](int i) { return tasks_[i].tail + tasks_[i].fastest; });
    all_ = (Mask{1} << tasks_.size()) - 1;
    for (const Sharing sharing : {Sharing::equal, Sharing::balanced, Sharing::fastest}) {
      Schedule schedule = list_schedule(problem, {.sharing = sharing, .priorities = levels});
      if (schedule.makespan < best_.makespan) best_ = std::move(schedule);
    }
  }

  Schedule run() {
    State state;
    state.free_units = problem_.capacity;
    if (!tasks_.empty()) search(state);
    return std::move(best_);
  }

 private:
  struct Task {
    NodeId node;
    std::vector<int> implementations;  // implementations that no other beats in both width and duration
    double tail = 0;                   // longest path after it
    double fastest = 0, least_work = 0;
    int link = kNoLink;
    Mask predecessors = 0;
  };
  struct State {
    double now = 0;
    Mask started = 0, finished = 0;
    int free_units = 0;
    bool progress = false;  // something has started since the last event
    std::array<double, kMostExhaustiveNodes> start{}, finish{};
    std::array<int, kMostExhaustiveNodes> implementation{};

    Mask running() const { return started & ~finished; }
  };

  const Cost& cost(int task, int index) const { return problem_.costs.of(tasks_[task].node, index); }
  int count() const { return static_cast<int>(tasks_.size()); }
  static bool contains(Mask set, int task) { return (set >> task & 1) != 0; }

  std::vector<int> useful_implementations(NodeId node) const {
    std::vector<int> useful;
    const auto implementations = problem_.costs.of(node);  // in ascending width
    for (int i = 0; i < static_cast<int>(implementations.size()); ++i) {
      const bool beaten = std::ranges::any_of(useful, [&](int other) {
        return implementations[other].width <= implementations[i].width &&
               implementations[other].duration <= implementations[i].duration;
      });
      if (!beaten) useful.push_back(i);
    }
    return useful;
  }

  bool is_ready(const State& state, int task) const {
    return !contains(state.started, task) && (tasks_[task].predecessors & ~state.finished) == 0;
  }

  /// Whether a task is ready, and a stream or its link is free.
  bool can_start(const State& state, int task) const {
    if (!is_ready(state, task)) return false;
    const int link = tasks_[task].link;
    return link == kNoLink ? state.free_units > 0 && free_streams(state) > 0
                           : (state.running() & on_links_[static_cast<std::size_t>(link)]) == 0;
  }

  /// At an event: tries all that may start. A state that has only waited is not compared: the one it came from would
  /// dominate it, and the schedules that begin by waiting would be lost.
  void search(State state) {
    if (state.started == all_) return keep_if_better(state);
    if (lower_bound(state) >= best_.makespan * (1 - 1e-12)) return;
    if (std::exchange(state.progress, false) && is_dominated(state)) return;
    decide(state, 0);
  }

  /// Tries all starts of the ready tasks from by_level_[next] on, and then moves on to the next event.
  void decide(const State& state, int next) {
    while (next < count() && !can_start(state, by_level_[next])) ++next;
    if (next == count()) return advance(state);
    const int task = by_level_[next];
    for (const int index : tasks_[task].implementations) {
      const auto& [width, duration, workspace, algorithm, link] = cost(task, index);
      if (width > state.free_units) continue;
      State started = state;
      started.started |= Mask{1} << task;
      started.progress = true;
      started.free_units -= width;
      started.start[task] = state.now;
      started.finish[task] = state.now + duration;
      started.implementation[task] = index;
      decide(started, next + 1);
    }
    decide(state, next + 1);
  }

  int free_streams(const State& state) const {
    return problem_.streams - std::popcount(state.running() & ~on_any_link_);
  }

  void advance(const State& state) {
    if (state.running() == 0) return;
    double next = best_.makespan;
    for (int i = 0; i < count(); ++i) {
      if (contains(state.running(), i)) next = std::min(next, state.finish[i]);
    }
    if (next >= best_.makespan) return;
    State event = state;
    event.now = next;
    for (int i = 0; i < count(); ++i) {
      if (!contains(state.running(), i) || state.finish[i] > next) continue;
      event.finished |= Mask{1} << i;
      event.free_units += cost(i, state.implementation[i]).width;
    }
    search(event);
  }

  double lower_bound(const State& state) const {
    double bound = 0, work = 0, durations = 0;
    std::array<double, kMostExhaustiveNodes> finish{};
    for (int i = 0; i < count(); ++i) {  // recording order is topological
      const Task& task = tasks_[i];
      if (contains(state.started, i)) {
        finish[i] = state.finish[i];
        const double left = std::max(0.0, finish[i] - state.now);
        work += left * cost(i, state.implementation[i]).width;
        if (task.link == kNoLink) durations += left;
      } else {
        double start = state.now;
        for (int j = 0; j < i; ++j) {
          if (contains(task.predecessors, j)) start = std::max(start, finish[j]);
        }
        finish[i] = start + task.fastest;
        work += task.least_work;
        if (task.link == kNoLink) durations += task.fastest;
      }
      bound = std::max(bound, finish[i] + task.tail);
    }
    for (Mask tasks : on_links_) {
      double left = 0;
      for (; tasks != 0; tasks &= tasks - 1) {
        const int i = std::countr_zero(tasks);
        left += contains(state.started, i) ? std::max(0.0, state.finish[i] - state.now) : tasks_[i].fastest;
      }
      bound = std::max(bound, state.now + left);
    }
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
  bool dominates(const State& a, const State& b) const {
    if (a.now > b.now) return false;
    for (Mask left = b.started & ~a.finished; left != 0; left &= left - 1) {
      const int i = std::countr_zero(left);
      if (a.finish[i] <= b.now) continue;  // it holds no units any more
      if (a.finish[i] > b.finish[i] || cost(i, a.implementation[i]).width > cost(i, b.implementation[i]).width)
        return false;
    }
    return true;
  }

  void keep_if_better(const State& state) {
    double makespan = 0;
    for (int i = 0; i < count(); ++i) makespan = std::max(makespan, state.finish[i]);
    if (makespan >= best_.makespan * (1 - 1e-12)) return;
    best_.makespan = makespan;
    for (int i = 0; i < count(); ++i) {
      best_.placements[tasks_[i].node] = {
          .implementation = state.implementation[i], .start = state.start[i], .finish = state.finish[i]};
    }
  }

  const Problem& problem_;
  std::vector<Task> tasks_;
  std::vector<int> by_level_;  // the longest path ahead first: good schedules are found early
  Mask all_ = 0;
  Schedule best_;
  std::vector<Mask> on_links_;  // per link: its tasks
  Mask on_any_link_ = 0;
  std::unordered_map<Mask, std::vector<State>> known_;  // by what has started
};

}  // namespace

Schedule exhaustive(const Problem& problem) {
  const auto launched = std::ranges::count(problem.graph.nodes(), false, &Node::is_view);
  BRAID_CHECK(launched <= kMostExhaustiveNodes, PlanError, "[exhaustive] expected at most ", kMostExhaustiveNodes,
              " nodes, got ", launched, ": larger graphs take too long");
  Schedule schedule = BranchAndBound(problem).run();
  assign_streams(problem, schedule);
  if (!problem.oversubscribes) add_capacity_edges(problem, schedule);
  return schedule;
}

}  // namespace braid::scheduler
