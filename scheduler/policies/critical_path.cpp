// List scheduling by bottom level. How nodes should share the capacity depends on the graph, so the list scheduler is
// run once for each rule, and the shortest schedule wins. The serial schedule competes too: the result is never worse
// than it under the model. If the winner is not yet at the lower bound, it is improved in two ways:
//   - Forward-backward improvement (Li and Willis, "An iterative scheduling technique for resource-constrained project
//     scheduling", 1992): the graph is scheduled from its end, and the times found there are bottom levels that know
//     of the capacity.
//   - Local search changes what the list scheduler goes by, a little at a time, and keeps what does no harm. It is
//     thorough on small graphs, where single decisions matter, and costs large ones nothing.

#include <algorithm>
#include <limits>

#include "core/random.h"
#include "scheduler/list_scheduler.h"
#include "scheduler/simulator.h"

namespace braid {
namespace {

constexpr double kBudget = 1e5;  // of local search: schedules tried × nodes²
constexpr double kMostRounds = 800;
constexpr std::uint32_t kMostMoves = 8;
constexpr std::size_t kMostHolds = 3;
constexpr int kPasses = 2;  // forward and backward
constexpr int kKept = 8;
constexpr double kAsLong = 1.0001;  // a gain that is smaller is worth no wait
/// A gain within rounding is none: then the simpler schedule stays.
constexpr double kRounding = 1e-9;

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem),
        bound_(lower_bound(problem.edges, problem.costs, problem.capacity, problem.streams).bound),
        best_{serial(problem)},
        launched_(best_.front().order) {}

  /// The best schedules found, the best first; no streams are assigned.
  std::vector<Schedule> run() {
    try_all_rules();
    schedule_forward_and_backward();
    const auto nodes = static_cast<double>(launched_.size());
    const double rounds = std::min(kMostRounds, kBudget / (nodes * nodes));
    for (int round = 0; round < rounds && !optimal(); ++round) {
      ListRules changed = rules_;
      for (auto moves = 1 + random_.below(kMostMoves); moves > 0; --moves) change(changed);
      attempt(std::move(changed));
    }
    return std::move(best_);
  }

 private:
  bool optimal() const { return best_.front().makespan <= bound_ * (1 + kRounding); }

  void try_all_rules() {
    const bool moldable =
        std::ranges::any_of(launched_, [&](NodeId node) { return problem_.costs.choices(node).size() > 1; });
    ListRules rules{.priorities = bottom_levels(problem_.edges, problem_.costs)};
    for (const Sharing sharing : {Sharing::equal, Sharing::balanced, Sharing::fastest}) {
      if (sharing != Sharing::equal && !moldable) break;
      rules.sharing = sharing;
      attempt(rules);
      if (!problem_.shares_units) continue;
      for (const double crowding : kCrowdings) {
        for (int fitted = 0; fitted < std::min(4, problem_.streams); ++fitted) {
          ListRules crowded = rules;
          crowded.crowding = crowding;
          crowded.fitted_streams = fitted;
          attempt(std::move(crowded));
        }
      }
    }
  }

  void schedule_forward_and_backward() {
    const Edges reversed{problem_.edges.successor_begin, problem_.edges.predecessor_begin, problem_.edges.successor,
                         problem_.edges.predecessor};
    const Problem backward{problem_.graph,   reversed,          problem_.costs,
                           problem_.streams, problem_.capacity, problem_.shares_units};
    ListRules rules = rules_;
    const auto take_finishes = [&](const Schedule& schedule) {
      for (const NodeId node : launched_) rules.priorities[node] = schedule.placements[node].finish;
    };
    for (int pass = 0; pass < kPasses && !optimal(); ++pass) {
      take_finishes(list_schedule(backward, rules));
      take_finishes(attempt(rules));
    }
  }

  /// Schedules by these rules. They stay if they are as good as the ones before.
  Schedule attempt(ListRules rules) {
    Schedule schedule = list_schedule(problem_, rules);
    if (schedule.order.size() < launched_.size()) return schedule;  // the holds lock each other out
    if (schedule.makespan <= least_) {
      least_ = schedule.makespan;
      rules_ = std::move(rules);
    }
    remember(schedule);
    return schedule;
  }

  void remember(const Schedule& schedule) {
    const auto place = std::ranges::find_if(
        best_, [&](const Schedule& other) { return schedule.makespan < other.makespan * (1 - kRounding); });
    if (place - best_.begin() == kKept) return;
    best_.insert(place, schedule);
    if (best_.size() > kKept) best_.pop_back();
  }

  NodeId any_node() { return launched_[random_.below(static_cast<std::uint32_t>(launched_.size()))]; }
  bool one_in(std::uint32_t number) { return random_.below(number) == 0; }

  /// One move: a node is held back, or has to run in another way, or becomes just more or less urgent than another.
  void change(ListRules& rules) {
    const NodeId node = any_node(), other = any_node();
    if (one_in(4)) {
      if (!rules.holds.empty() && one_in(2)) {
        rules.holds.erase(rules.holds.begin() + random_.below(static_cast<std::uint32_t>(rules.holds.size())));
      } else if (node != other && rules.holds.size() < kMostHolds) {
        rules.holds.emplace_back(other, node);
      }
    } else if (one_in(3)) {
      if (rules.choices.empty()) rules.choices.assign(problem_.graph.node_count(), kAnyChoice);
      const auto choices = static_cast<std::uint32_t>(problem_.costs.choices(node).size());
      rules.choices[node] = static_cast<int>(random_.below(choices + 1)) - 1;  // kAnyChoice is one of them
    } else {
      rules.priorities[node] = rules.priorities[other] * (one_in(2) ? 1.001 : 0.999);
    }
  }

  static constexpr double kCrowdings[] = {1.5, 2, 4};

  const Problem& problem_;
  const double bound_;
  std::vector<Schedule> best_;
  const std::vector<NodeId> launched_;
  ListRules rules_;  // of the best run of the list scheduler
  double least_ = std::numeric_limits<double>::infinity();
  Generator random_{0};
};

/// What streams and waits make of a schedule where nothing else keeps nodes in time. Returns the number of waits.
int play(const Problem& problem, Schedule& schedule) {
  Plan plan;
  plan.placements = schedule.placements;
  add_commands(problem.edges, schedule, problem.streams, plan);
  const Simulation simulation = simulate(problem, plan);
  for (const NodeId node : schedule.order) {
    schedule.placements[node].start = simulation.runs[node].start;
    schedule.placements[node].finish = simulation.runs[node].finish;
  }
  schedule.makespan = simulation.makespan;
  return plan.waits();
}

/// The shortest of these schedules when they are run; of those that take as long, the one with the
/// fewest waits.
Schedule best_when_run(const Problem& problem, std::span<const Schedule> schedules) {
  std::vector<std::pair<int, Schedule>> played;
  for (const Schedule& schedule : schedules) {
    for (const StreamChoice preference : {StreamChoice::few_waits, StreamChoice::on_time}) {
      Schedule candidate = schedule;
      assign_streams(problem, candidate, preference);
      const int waits = play(problem, candidate);
      played.emplace_back(waits, std::move(candidate));
    }
  }
  const auto makespan = [](const auto& item) { return item.second.makespan; };
  const double least = std::ranges::min(played, {}, makespan).second.makespan;
  std::erase_if(played, [&](const auto& item) { return makespan(item) > least * kAsLong; });
  return std::ranges::min(played, {}, [](const auto& item) { return item.first; }).second;
}

}  // namespace

Schedule critical_path(const Problem& problem) {
  std::vector<Schedule> best = Search(problem).run();
  if (problem.shares_units) {
    best.push_back(serial(problem));  // so that the result is never worse than it
    return best_when_run(problem, best);
  }
  assign_streams(problem, best.front());
  add_capacity_edges(problem, best.front());
  return std::move(best.front());
}

}  // namespace braid
