// List scheduling with moldable nodes: a node may run wide and finish early, or narrow and leave room for others.
//
// Where it is better for the most important node to wait for capacity than to start narrow, less important ones may
// start only if they finish before it starts (EASY backfilling: Lifka, "The ANL/IBM SP scheduling system", 1995).
//
// All running nodes slow down by the same factor when they ask for more than the capacity, so a single clock counts the
// progress of them all: a node that starts at progress p finishes at p + duration, whatever starts in between (virtual
// time, as in fair queueing: Parekh and Gallager, "A generalized processor sharing approach to flow control", 1993).
//
// Whenever a link is free, the most important of the nodes that are ready for it starts, before any that compute.

#include "scheduler/policies/list_scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

namespace braid::scheduler {
namespace {

/// The most ready nodes considered in one decision: bounds the time spent where thousands are ready.
constexpr int kLookahead = 16;
constexpr double kNever = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const ListRules& rules, ScheduleLog::Attempt* log)
      : problem_(problem),
        rules_(rules),
        log_(log),
        free_units_(problem.capacity),
        extra_units_(static_cast<int>((rules.oversubscription - 1) * problem.capacity)),
        free_streams_(problem.streams),
        missing_(problem.graph.node_count()),
        ready_for_link_(static_cast<std::size_t>(problem.links)),
        link_is_busy_(ready_for_link_.size()) {
    schedule_.placements.resize(problem.graph.node_count());
  }

  Schedule run() {
    for (const auto& [first, second] : rules_.start_orders) ++missing_[second];
    for (NodeId node = 0; node < problem_.graph.node_count(); ++node) {
      missing_[node] += static_cast<int>(problem_.edges.predecessors(node).size());
      if (missing_[node] == 0 && !problem_.graph.node(node).is_view) make_ready(node);
    }
    for (start_ready_nodes(); !running_.empty(); start_ready_nodes()) finish_next();
    schedule_.makespan = now_;
    if (log_ != nullptr) finish_log();
    return std::move(schedule_);
  }

 private:
  struct Running {
    double finish;  // on the clock of progress
    NodeId node;
    int width;
  };
  struct Start {
    double time = kNever;  // on the clock of progress, like finish
    double finish = kNever;
    int implementation = -1;
  };

  int usable_units() const { return free_units_ + extra_units_; }

  using Ready = std::set<std::pair<double, NodeId>>;

  void make_ready(NodeId node) {
    const int link = problem_.costs.link(node);
    (link == kNoLink ? ready_ : ready_for_link_[link]).insert({-rules_.priorities[node], node});
  }

  void start_ready_nodes() {
    for (std::size_t link = 0; link < ready_for_link_.size(); ++link) start_on_link(link);
    const bool in_turn =
        rules_.sharing == Sharing::fastest || (rules_.sharing == Sharing::balanced && better_in_turn());
    double reserved = kNever;  // when a more important node will start that waits for capacity
    int passed_over = 0;
    for (auto next = ready_.begin(); next != ready_.end() && passed_over < kLookahead;) {
      if (usable_units() <= 0 || free_streams_ == 0) return;
      const auto it = free_streams_ <= rules_.fitted_streams ? best_fit(next) : next;
      const NodeId node = it->second;
      const int limit = in_turn ? problem_.capacity : share();
      const Start start = best_start(node, limit, reserved);
      if (log_ != nullptr) note(ready_, node, start, limit, in_turn, reserved);
      if (start.time == progress_) {
        launch(node, start);
        const bool first = it == next;
        const auto after = ready_.erase(it);
        if (first) next = after;
        if (release_held(node)) next = ready_.begin();
      } else {
        reserved = std::min(reserved, start.time);
        ++passed_over;
        ++next;
      }
    }
  }

  void start_on_link(std::size_t link) {
    Ready& ready = ready_for_link_[link];
    if (link_is_busy_[link] || ready.empty()) return;
    const NodeId node = ready.begin()->second;
    const Cost& cost = problem_.costs.of(node, 0);
    if (cost.width > std::max(usable_units(), 0)) return;
    const Start start{progress_, progress_ + cost.duration, 0};
    if (log_ != nullptr) note(ready, node, start, cost.width, false, kNever);
    ready.erase(ready.begin());
    launch(node, start);
    release_held(node);
  }

  /// The node from here on whose width is closest to the free units.
  Ready::iterator best_fit(Ready::iterator from) const {
    auto best = from;
    const auto misfit = [&](Ready::iterator it) {
      return std::abs(free_units_ - problem_.costs.of(it->second, 0).width);
    };
    int looked = 0;
    for (auto it = from; it != ready_.end() && looked < kLookahead; ++it, ++looked) {
      if (misfit(it) < misfit(best)) best = it;
    }
    return best;
  }

  /// The largest width that leaves as much for every other node that could start now.
  int share() const { return std::max(0, free_units_) / std::min(static_cast<int>(ready_.size()), free_streams_); }

  /// Whether the most important ready nodes finish earlier if each runs as fast as it can, one after another, than if
  /// they run together at their smallest widths.
  bool better_in_turn() const {
    const int slots = std::min({usable_units(), free_streams_, kLookahead});
    if (slots < 2) return true;
    std::array<double, kLookahead> slot{};
    const auto busy_until = std::span(slot).first(slots);
    double in_turn = 0;
    int looked = 0;
    for (const auto& [priority, node] : ready_) {
      if (looked++ == kLookahead) break;
      *std::ranges::min_element(busy_until) += problem_.costs.of(node, 0).duration;
      double fastest = kNever;
      for (const Cost& cost : problem_.costs.of(node)) {
        if (cost.width <= free_units_ || fastest == kNever) fastest = std::min(fastest, cost.duration);
      }
      in_turn += fastest;
    }
    return in_turn < std::ranges::max(busy_until);
  }

  /// The start that finishes the node first, at its smallest width or at one up to `limit`. While capacity is reserved,
  /// the node must finish before the reservation begins.
  Start best_start(NodeId node, int limit, double reserved) const {
    Start best;
    const auto implementations = problem_.costs.of(node);
    const int fixed = rules_.implementations.empty() ? kAnyImplementation : rules_.implementations[node];
    for (int i = 0; i < static_cast<int>(implementations.size()); ++i) {
      if (fixed != kAnyImplementation ? i != fixed : i > 0 && implementations[i].width > limit) continue;
      const double time = available(implementations[i].width);
      const double finish = time + implementations[i].duration;
      if (reserved != kNever && (time > progress_ || finish > reserved)) continue;
      if (finish < best.finish) best = {time, finish, i};
    }
    return best;
  }

  /// When a node of this width may start if nothing else does.
  double available(int width) const {
    int units = usable_units();
    if (units >= width) return progress_;
    for (const Running& running : running_) {
      units += running.width;
      if (units >= width) return running.finish;
    }
    return kNever;
  }

  /// Logs a decision, before anything starts because of it.
  void note(const Ready& among, NodeId node, const Start& start, int limit, bool in_turn, double reserved) const {
    const auto by_the_clock = [&](double progress) { return now_ + (progress - progress_); };
    ScheduleLog::Pick& pick = log_->picks.emplace_back();
    pick = {.time = now_,
            .free_units = free_units_,
            .free_streams = free_streams_,
            .node = node,
            .limit = limit,
            .fixed = !rules_.implementations.empty() && rules_.implementations[node] != kAnyImplementation,
            .in_turn = in_turn,
            .reserved = by_the_clock(reserved),
            .implementation = start.implementation,
            .start = by_the_clock(start.time),
            .finish = by_the_clock(start.finish),
            .started = start.time == progress_};
    for (const auto& [priority, ready] : among) pick.ready.push_back(ready);
  }

  /// What is known only at the end: others may have slowed a node down since it started.
  void finish_log() {
    log_->makespan = now_;
    log_->priorities = rules_.priorities;
    log_->start_orders = rules_.start_orders;
    for (ScheduleLog::Pick& pick : log_->picks) {
      if (pick.started) pick.finish = schedule_.placements[pick.node].finish;
    }
  }

  void launch(NodeId node, const Start& start) {
    const Cost& cost = problem_.costs.of(node, start.implementation);
    schedule_.placements[node] = {.implementation = start.implementation, .start = now_};
    schedule_.order.push_back(node);
    free_units_ -= cost.width;
    occupy(cost.link, true);
    const double finish = progress_ + cost.duration;
    running_.insert(std::ranges::upper_bound(running_, finish, {}, &Running::finish), {finish, node, cost.width});
  }

  /// Takes or releases a link, or a stream if it is kNoLink.
  void occupy(int link, bool takes) {
    if (link != kNoLink) {
      link_is_busy_[link] = takes;
    } else {
      free_streams_ += takes ? -1 : 1;
    }
  }

  /// Whether anything that computes becomes ready because this node has started.
  bool release_held(NodeId node) {
    bool any = false;
    for (const auto& [first, second] : rules_.start_orders) {
      if (first != node || --missing_[second] > 0) continue;
      make_ready(second);
      any = any || problem_.costs.link(second) == kNoLink;
    }
    return any;
  }

  /// Moves the clocks to the next finish.
  void finish_next() {
    const double next = running_.front().finish;
    const int demand = problem_.capacity - free_units_;
    // Until a node is slowed down the clocks agree, and times are exact sums of durations.
    const bool slowed = demand > problem_.capacity || now_ != progress_;
    now_ = slowed ? now_ + (next - progress_) * std::max(1.0, static_cast<double>(demand) / problem_.capacity) : next;
    progress_ = next;
    while (!running_.empty() && running_.front().finish <= next) {
      const Running over = running_.front();
      running_.erase(running_.begin());
      schedule_.placements[over.node].finish = now_;
      free_units_ += over.width;
      occupy(problem_.costs.link(over.node), false);
      for (const NodeId successor : problem_.edges.successors(over.node)) {
        if (--missing_[successor] == 0) make_ready(successor);
      }
    }
  }

  const Problem& problem_;
  const ListRules& rules_;
  ScheduleLog::Attempt* const log_;
  double now_ = 0;
  double progress_ = 0;
  int free_units_;  // less than 0 while nodes are slowed
  const int extra_units_;
  int free_streams_;
  std::vector<int> missing_;           // per node: predecessors that have not finished
  Ready ready_;                        // (-priority, node): the most important first
  std::vector<Ready> ready_for_link_;  // per link
  std::vector<bool> link_is_busy_;
  std::vector<Running> running_;  // by finish; at most one per stream and link
  Schedule schedule_;
};

}  // namespace

Schedule list_schedule(const Problem& problem, const ListRules& rules, ScheduleLog::Attempt* log) {
  return ListScheduler(problem, rules, log).run();
}

std::vector<double> recording_priorities(const Problem& problem, std::vector<double> levels) {
  for (NodeId node = 0; node < problem.graph.node_count(); ++node) {
    if (problem.costs.link(node) == kNoLink) levels[static_cast<std::size_t>(node)] = problem.graph.node_count() - node;
  }
  return levels;
}

}  // namespace braid::scheduler
