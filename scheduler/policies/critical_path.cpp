// List scheduling by bottom level. How nodes should share the capacity depends on the graph, so the list scheduler is
// run once for each rule, and the shortest schedule wins. The serial schedule competes too: the result is never worse
// than it under the model. If the winner is not yet at the lower bound, it is improved in two ways:
//   - Forward-backward improvement (Li and Willis, "An iterative scheduling technique for resource-constrained project
//     scheduling", 1992): the graph is scheduled from its end, and the times found there are bottom levels that know
//     of the capacity.
//   - Local search changes what the list scheduler goes by, a little at a time, and keeps what does no harm. It
//     is thorough on small graphs, where single decisions matter, and costs large ones nothing.
// Large steps are scheduled once more within a window over an order that needs little memory (scheduler/window.h). That
// schedule wins if it is as short.

#include <algorithm>
#include <limits>

#include "core/random.h"
#include "scheduler/list_scheduler.h"
#include "scheduler/schedule_log.h"
#include "scheduler/window.h"

namespace braid {
namespace {

constexpr std::size_t kBudget = 80000;    // of local search: schedules that it tries, times the square of the nodes
constexpr std::size_t kMostRounds = 800;  // schedules that it tries
constexpr std::uint32_t kMostMoves = 8;
constexpr std::size_t kMostHolds = 3;
constexpr int kPasses = 2;  // forward and backward
/// A gain within rounding is none: then the simpler schedule stays.
constexpr double kRounding = 1e-9;

std::string name_of(const ListRules& rules) {
  constexpr const char* kNames[] = {"equal shares", "balanced", "fastest"};  // by Sharing
  std::string name = kNames[static_cast<int>(rules.sharing)];
  if (rules.crowding > 1) name += message(", asking for ", rules.crowding, " times the capacity");
  if (rules.fitted_streams > 0) name += message(", ", rules.fitted_streams, " streams for what fits best");
  return name;
}

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem),
        bound_(lower_bound(problem.edges, problem.costs, problem.capacity, problem.streams).bound),
        best_(serial(problem)),
        launched_(best_.order) {}

  Schedule run() {
    if (problem_.log != nullptr) problem_.log->attempts = {{.rule = "serial", .picks = {}, .makespan = best_.makespan}};
    try_all_rules();
    schedule_forward_and_backward();
    const auto affordable = kBudget / std::max<std::size_t>(1, launched_.size() * launched_.size());
    for (std::size_t round = 0; round < std::min(kMostRounds, affordable) && !optimal(); ++round) {
      ListRules changed = rules_;
      for (auto moves = 1 + random_.below(kMostMoves); moves > 0; --moves) change(changed);
      attempt(std::move(changed), message("local search, schedule ", round + 1), Tell::if_better);
    }
    return std::move(best_);
  }

 private:
  enum class Tell { always, if_better };

  bool optimal() const { return best_.makespan <= bound_ * (1 + kRounding); }

  void try_all_rules() {
    const bool moldable =
        std::ranges::any_of(launched_, [&](NodeId node) { return problem_.costs.choices(node).size() > 1; });
    ListRules rules{.priorities = bottom_levels(problem_.edges, problem_.costs)};
    for (const Sharing sharing : {Sharing::equal, Sharing::balanced, Sharing::fastest}) {
      if (sharing != Sharing::equal && !moldable) break;
      rules.sharing = sharing;
      attempt(rules, name_of(rules));
      if (!problem_.shares_units) continue;
      for (const double crowding : kCrowdings) {
        for (int fitted = 0; fitted < std::min(4, problem_.streams); ++fitted) {
          ListRules crowded = rules;
          crowded.crowding = crowding;
          crowded.fitted_streams = fitted;
          attempt(crowded, name_of(crowded), Tell::if_better);
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
      take_finishes(attempt(rules, "by the times of a schedule from the end"));
    }
  }

  /// Schedules by these rules. They stay if they are as good as the ones before.
  Schedule attempt(ListRules rules, const std::string& name, Tell tell = Tell::always) {
    Schedule schedule = list_schedule(problem_, rules);
    if (schedule.order.size() < launched_.size()) return schedule;  // the holds lock each other out
    const bool better = schedule.makespan < best_.makespan * (1 - kRounding);
    if (better) best_ = schedule;
    if (problem_.log != nullptr && (better || tell == Tell::always)) note(rules, name, better);
    if (schedule.makespan <= least_) {
      least_ = schedule.makespan;
      rules_ = std::move(rules);
    }
    return schedule;
  }

  /// Tells the log what came of these rules, decision by decision.
  void note(const ListRules& rules, const std::string& name, bool kept) const {
    auto& attempts = problem_.log->attempts;
    list_schedule(problem_, rules, &attempts.emplace_back(ScheduleLog::Attempt{.rule = name}));
    if (kept) problem_.log->kept = attempts.size() - 1;
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
  Schedule best_;
  const std::vector<NodeId> launched_;
  ListRules rules_;  // of the best run of the list scheduler
  double least_ = std::numeric_limits<double>::infinity();
  Generator random_{0};
};

Schedule search(const Problem& problem) {
  Schedule best = Search(problem).run();
  assign_streams(problem, best);
  return best;
}

/// Larger steps are also scheduled with a view to memory, within a window of so many nodes.
constexpr NodeId kManyNodes = 128;
constexpr int kWindow = 64;

}  // namespace

Schedule critical_path(const Problem& problem) {
  Schedule best = search(problem);
  if (problem.streams > 1 && problem.graph.node_count() > kManyNodes) {
    Schedule lean = lean_schedule(problem, search, kWindow);
    if (lean.makespan <= best.makespan) best = std::move(lean);
  }
  if (!problem.shares_units) add_capacity_edges(problem, best);
  return best;
}

}  // namespace braid
