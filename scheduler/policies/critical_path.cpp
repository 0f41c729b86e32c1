// List scheduling by bottom level. How nodes should share the capacity depends on the graph, so the list scheduler is
// run once for each rule, and the shortest schedule wins. The serial schedule competes too: the result is never worse
// than it under the model. If the winner is not yet at the lower bound, it is improved in two ways:
//   - Forward-backward improvement (Li and Willis, "An iterative scheduling technique for resource-constrained project
//     scheduling", 1992): the graph is scheduled from its end, and the times found there are bottom levels that account
//     for the capacity.
//   - Local search makes small changes to the rules of the list scheduler and keeps those that do no harm. It is
//     thorough on small graphs, where single decisions matter, and costs nothing on large ones.
// Large steps are scheduled once more within a window over an order that needs little memory
// (scheduler/memory/lean_schedule.h). That schedule wins if it is equally short.

#include <algorithm>
#include <limits>

#include "core/base/random.h"
#include "core/text/text.h"
#include "scheduler/check/simulator.h"
#include "scheduler/memory/lean_schedule.h"
#include "scheduler/policies/list_scheduler.h"
#include "scheduler/schedule_log.h"

namespace braid::scheduler {
namespace {

constexpr double kBudget = 1e5;  // budget of local search: schedules tried × nodes²
constexpr double kMostRounds = 800;
constexpr std::uint32_t kMostMoves = 8;
constexpr std::size_t kMostHolds = 3;
constexpr int kPasses = 2;         // forward and backward
constexpr std::size_t kKept = 12;  // schedules, where they are simulated before one is chosen
constexpr double kAsLong = 1.001;  // smaller differences are ties: prefer fewer waits and less memory
/// A gain within rounding does not count: the simpler schedule is kept.
constexpr double kMakespanRounding = 1e-9;

std::string name_of(const ListRules& rules) {
  constexpr const char* kNames[] = {"equal shares", "balanced", "fastest"};  // by Sharing
  std::string name = kNames[static_cast<int>(rules.sharing)];
  if (rules.oversubscription > 1) name += message(", asking for ", rules.oversubscription, " times the capacity");
  if (rules.fitted_streams > 0) name += message(", ", plural(rules.fitted_streams, "stream"), " for what fits best");
  return name;
}

/// A schedule, and its place among the attempts of the log, if there is one.
struct Found {
  Schedule schedule;
  std::size_t attempt = 0;
};

class Search {
 public:
  explicit Search(const Problem& problem)
      : problem_(problem),
        bound_(lower_bound(problem).bound),
        best_{{serial(problem)}},
        launched_(problem.graph.launched_nodes()) {}

  /// The best schedules found, the best first; no streams are assigned.
  std::vector<Found> run() {
    if (problem_.log != nullptr) {
      problem_.log->attempts = {{.rule = "serial", .picks = {}, .makespan = best_.front().schedule.makespan}};
    }
    try_all_rules();
    try_recording_order();
    schedule_forward_and_backward();
    const auto nodes = static_cast<double>(launched_.size());
    const double rounds = std::min(kMostRounds, kBudget / (nodes * nodes));
    for (int round = 0; round < rounds && !optimal(); ++round) {
      ListRules changed = rules_;
      for (auto moves = 1 + random_.below(kMostMoves); moves > 0; --moves) change(changed);
      attempt(
          std::move(changed), [&] { return message("local search, schedule ", round + 1); }, Logged::if_kept);
    }
    return std::move(best_);
  }

 private:
  enum class Logged { always, if_kept };

  bool optimal() const { return best_.front().schedule.makespan <= bound_ * (1 + kMakespanRounding); }

  void try_all_rules() {
    const bool moldable =
        std::ranges::any_of(launched_, [&](NodeId node) { return problem_.costs.of(node).size() > 1; });
    ListRules rules{.priorities = bottom_levels(problem_.edges, problem_.costs)};
    for (const Sharing sharing : {Sharing::equal, Sharing::balanced, Sharing::fastest}) {
      if (!moldable && sharing != Sharing::equal) continue;
      rules.sharing = sharing;
      attempt(rules, [&] { return name_of(rules); });
      if (!problem_.oversubscribes) continue;
      const int most_fitted = std::min(4, problem_.streams);
      for (const double oversubscription : kOversubscriptions) {
        for (int fitted = 0; fitted < most_fitted; ++fitted) {
          ListRules oversubscribed = rules;
          oversubscribed.oversubscription = oversubscription;
          oversubscribed.fitted_streams = fitted;
          attempt(
              oversubscribed, [&] { return name_of(oversubscribed); }, Logged::if_kept);
        }
      }
    }
  }

  /// Tries recording order, which computes gradients of weights early, where there are links.
  void try_recording_order() {
    if (problem_.links == 0) return;
    ListRules rules = rules_;
    rules.priorities = recording_priorities(problem_, bottom_levels(problem_.edges, problem_.costs));
    attempt(std::move(rules), [] { return std::string("computing in recording order"); });
  }

  void schedule_forward_and_backward() {
    if (optimal()) return;
    const Problem backward = with_edges(problem_, {problem_.edges.successor_begin, problem_.edges.predecessor_begin,
                                                   problem_.edges.successor, problem_.edges.predecessor});
    ListRules rules = rules_;
    const auto take_finishes = [&](const Schedule& schedule) {
      for (const NodeId node : launched_) rules.priorities[node] = schedule.placements[node].finish;
    };
    for (int pass = 0; pass < kPasses && !optimal(); ++pass) {
      take_finishes(list_schedule(backward, rules));
      take_finishes(attempt(rules, [] { return std::string("by the times of a schedule from the end"); }));
    }
  }

  /// Schedules by these rules. They are kept if they are as good as the previous ones. `name()` is their name in a log.
  template <class Name>
  Schedule attempt(ListRules rules, const Name& name, Logged logged = Logged::always) {
    Schedule schedule = list_schedule(problem_, rules);
    if (schedule.order.size() < launched_.size()) return schedule;  // the start orders contradict each other
    const bool kept = remember(schedule);
    if (problem_.log != nullptr && (kept || logged == Logged::always)) {  // again, decision by decision
      list_schedule(problem_, rules, &problem_.log->attempts.emplace_back(ScheduleLog::Attempt{.rule = name()}));
    }
    if (schedule.makespan <= least_) {
      least_ = schedule.makespan;
      rules_ = std::move(rules);
    }
    return schedule;
  }

  /// Whether a schedule is among the best so far.
  bool remember(const Schedule& schedule) {
    const auto place = std::ranges::find_if(best_, [&](const Found& other) {
      return schedule.makespan < other.schedule.makespan * (1 - kMakespanRounding);
    });
    const std::size_t most = problem_.oversubscribes ? kKept : 1;
    if (place - best_.begin() == static_cast<std::ptrdiff_t>(most)) return false;
    const std::size_t attempt = problem_.log != nullptr ? problem_.log->attempts.size() : 0;
    best_.insert(place, {schedule, attempt});
    if (best_.size() > most) best_.pop_back();
    return true;
  }

  NodeId any_node() { return launched_[random_.below(static_cast<std::uint32_t>(launched_.size()))]; }
  bool one_in(std::uint32_t number) { return random_.below(number) == 0; }

  /// One move: a node is delayed, gets another implementation, or becomes just more or less urgent than another.
  void change(ListRules& rules) {
    const NodeId node = any_node(), other = any_node();
    if (one_in(4)) {
      if (!rules.start_orders.empty() && one_in(2)) {
        rules.start_orders.erase(rules.start_orders.begin() +
                                 random_.below(static_cast<std::uint32_t>(rules.start_orders.size())));
      } else if (node != other && rules.start_orders.size() < kMostHolds) {
        rules.start_orders.emplace_back(other, node);
      }
    } else if (one_in(3)) {
      if (rules.implementations.empty()) rules.implementations.assign(problem_.graph.node_count(), kAnyImplementation);
      const auto implementations = static_cast<std::uint32_t>(problem_.costs.of(node).size());
      rules.implementations[node] =
          static_cast<int>(random_.below(implementations + 1)) - 1;  // kAnyImplementation is one of them
    } else {
      rules.priorities[node] = rules.priorities[other] * (one_in(2) ? 1.001 : 0.999);
    }
  }

  static constexpr double kOversubscriptions[] = {1.5, 2, 4};

  const Problem& problem_;
  const double bound_;
  std::vector<Found> best_;
  const std::vector<NodeId> launched_;
  ListRules rules_;  // rules of the best run of the list scheduler
  double least_ = std::numeric_limits<double>::infinity();
  Generator random_{0};
};

/// Simulates a schedule of which only streams and waits are enforced. Returns the number of waits.
int simulate_schedule(const Problem& problem, Schedule& schedule) {
  Plan plan = plan_commands(problem, schedule, "");
  take_simulated_times(problem, plan);
  schedule.placements = plan.placements;
  schedule.makespan = plan.makespan;
  return plan.commands.waits();
}

/// The shortest of these schedules when they are run; among ties, the one with the fewest waits.
Found best_when_run(const Problem& problem, std::span<const Found> found) {
  struct Candidate {
    const Found* found;
    StreamPreference preference;
    double makespan;
    int waits;
  };
  // The last run is that of the best candidate, so that its log remains.
  const auto run = [&](const Candidate& candidate, Schedule& schedule) {
    schedule = candidate.found->schedule;
    assign_streams(problem, schedule, candidate.preference);
    return simulate_schedule(problem, schedule);
  };
  std::vector<Candidate> candidates;
  Schedule schedule;
  for (const Found& one : found) {
    for (const auto preference :
         {StreamPreference::few_waits, StreamPreference::on_time, StreamPreference::late_updates}) {
      Candidate& candidate = candidates.emplace_back(Candidate{&one, preference, 0, 0});
      candidate.waits = run(candidate, schedule);
      candidate.makespan = schedule.makespan;
    }
  }
  const double least = std::ranges::min(candidates, {}, &Candidate::makespan).makespan;
  std::erase_if(candidates, [&](const Candidate& candidate) { return candidate.makespan > least * kAsLong; });
  const Candidate best = std::ranges::min(candidates, {}, &Candidate::waits);
  run(best, schedule);
  return {std::move(schedule), best.found->attempt};
}

Schedule search(const Problem& problem) {
  std::vector<Found> found = Search(problem).run();
  Found best = found.front();
  if (problem.oversubscribes) {
    found.push_back({serial(problem)});  // so that the result is never worse than it
    best = best_when_run(problem, found);
  } else {
    assign_streams(problem, best.schedule);
  }
  if (problem.log != nullptr) problem.log->kept = best.attempt;
  return std::move(best.schedule);
}

/// Larger steps are also scheduled for low memory, within a window of this many nodes.
constexpr NodeId kManyNodes = 128;
constexpr int kWindow = 64;

/// The decisions of a lean schedule are about the nodes of a reordered graph: only their outcome is logged.
void keep_lean(double makespan, ScheduleLog& log) {
  log.kept = log.attempts.size();
  log.attempts.push_back({.rule = "within a window over an order that frees memory early", .makespan = makespan});
  log.stream_picks.clear();
}

}  // namespace

Schedule plain_list(const Problem& problem) {
  const ListRules rules{.sharing = Sharing::equal, .priorities = bottom_levels(problem.edges, problem.costs)};
  ScheduleLog::Attempt attempt{.rule = name_of(rules)};
  Schedule schedule = list_schedule(problem, rules, &attempt);
  if (problem.log != nullptr) problem.log->attempts = {std::move(attempt)};
  assign_streams(problem, schedule);
  if (!problem.oversubscribes) add_capacity_edges(problem, schedule);
  return schedule;
}

Schedule critical_path(const Problem& problem) {
  Schedule best = search(problem);
  if (!problem.oversubscribes) add_capacity_edges(problem, best);
  if (problem.streams > 1 && problem.graph.node_count() > kManyNodes) {
    Schedule lean = lean_schedule(problem, search, kWindow);  // has its capacity edges
    if (lean.makespan <= best.makespan) {
      best = std::move(lean);
      if (problem.log != nullptr) keep_lean(best.makespan, *problem.log);
    }
  }
  return best;
}

}  // namespace braid::scheduler
