// List scheduling by bottom level. How nodes should share the capacity depends on the graph, so the list scheduler is
// run once for each rule, and the shortest schedule wins. The serial schedule competes too: the result is never worse
// than it under the model.
//
// If the winner is not yet at the lower bound, local search changes what the list scheduler goes by, a little at a
// time, and keeps what does no harm. Its budget is a number of nodes to place, so that it is thorough on small graphs,
// where single decisions matter, and costs large ones nothing.

#include <algorithm>
#include <limits>

#include "core/random.h"
#include "scheduler/list_scheduler.h"
#include "scheduler/schedule_log.h"

namespace braid {
namespace {

constexpr int kBudget = 10000;    // nodes placed in local search
constexpr int kMostRounds = 800;  // schedules tried in it
constexpr std::uint32_t kMostMoves = 8;
constexpr std::size_t kMostHolds = 3;
/// A gain within rounding is none: then the simpler schedule stays.
constexpr double kRounding = 1e-9;

const char* name_of(Sharing sharing) {
  constexpr const char* kNames[] = {"equal shares", "balanced", "fastest"};
  return kNames[static_cast<int>(sharing)];
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
    const auto affordable = kBudget / std::max<std::size_t>(1, launched_.size());
    for (int round = 0; round < std::min<int>(kMostRounds, affordable) && !optimal(); ++round) {
      ListRules changed = rules_;
      for (auto moves = 1 + random_.below(kMostMoves); moves > 0; --moves) change(changed);
      attempt(std::move(changed), round + 1);
    }
    return std::move(best_);
  }

 private:
  bool optimal() const { return best_.makespan <= bound_ * (1 + kRounding); }

  void try_all_rules() {
    ListRules rules{.priorities = bottom_levels(problem_.edges, problem_.costs)};
    const auto rooms = problem_.shares_units ? std::span(kRooms) : std::span(kRooms).first(1);
    for (const double room : rooms) {
      for (const Sharing sharing : {Sharing::equal, Sharing::balanced, Sharing::fastest}) {
        rules.room = room;
        rules.sharing = sharing;
        if (!optimal()) attempt(rules);
      }
    }
  }

  /// Schedules by these rules, in a round of local search or before it. They stay if they are as good as the ones
  /// before.
  void attempt(ListRules rules, int round = 0) {
    Schedule schedule = list_schedule(problem_, rules);
    if (schedule.order.size() < launched_.size()) return;  // the holds lock each other out
    const bool better = schedule.makespan < best_.makespan * (1 - kRounding);
    if (problem_.log != nullptr && (round == 0 || better)) note(rules, round, better);
    if (schedule.makespan <= least_) {
      least_ = schedule.makespan;
      rules_ = std::move(rules);
    }
    if (better) best_ = std::move(schedule);
  }

  /// Tells the log what came of these rules.
  void note(const ListRules& rules, int round, bool better) const {
    auto& attempts = problem_.log->attempts;
    std::string name = round > 0 ? message("local search, round ", round) : name_of(rules.sharing);
    if (round == 0 && rules.room < 1) name += message(", starting where ", 100 * rules.room, " % of the width is free");
    list_schedule(problem_, rules, &attempts.emplace_back(ScheduleLog::Attempt{.rule = std::move(name)}));
    if (better) problem_.log->kept = attempts.size() - 1;
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

  static constexpr double kRooms[] = {1, 0.5, 1e-9};

  const Problem& problem_;
  const double bound_;
  Schedule best_;
  const std::vector<NodeId> launched_;
  ListRules rules_;  // of the best run of the list scheduler
  double least_ = std::numeric_limits<double>::infinity();
  Generator random_{0};
};

}  // namespace

Schedule critical_path(const Problem& problem) {
  Schedule best = Search(problem).run();
  assign_streams(problem, best);
  if (!problem.shares_units) add_capacity_edges(problem, best);
  return best;
}

}  // namespace braid
