// List scheduling by bottom level (HLFET in Kwok and Ahmad, "Static scheduling algorithms", 1999) with moldable nodes:
// a node may run wide and soon be over, or narrow and leave room for others. Which is better depends on the graph, so
// the list scheduler is run once for each rule of sharing the capacity, and the shortest schedule wins. The serial
// schedule competes too: the result is never worse than it under the model.
//
// Where the most important node does better to wait for capacity than to start narrow, less important ones may start
// only if they are over by then (EASY backfilling: Lifka, "The ANL/IBM SP scheduling system", 1995).

#include <algorithm>
#include <limits>
#include <set>

#include "scheduler/policy.h"
#include "scheduler/schedule_log.h"

namespace braid {
namespace {

/// How wide a node may start while others are ready.
enum class Sharing {
  equal,     ///< free capacity divided among the ready nodes
  balanced,  ///< equal shares, or one wide node after another where that finishes the ready nodes sooner
  fastest,   ///< every node at the width that finishes it first
};

const char* name_of(Sharing sharing) {
  constexpr const char* kNames[] = {"equal shares", "balanced", "fastest"};
  return kNames[static_cast<int>(sharing)];
}

/// Ready nodes weighed or passed over in one decision: bounds the time spent where thousands are ready.
constexpr int kLookahead = 16;
constexpr double kNever = std::numeric_limits<double>::infinity();

class ListScheduler {
 public:
  ListScheduler(const Problem& problem, const std::vector<double>& levels, Sharing sharing)
      : problem_(problem), levels_(levels), sharing_(sharing), free_units_(problem.capacity), busy_(problem.streams) {
    schedule_.placements.resize(problem.graph.node_count());
    missing_.resize(problem.graph.node_count());
  }

  Schedule run() {
    for (NodeId node = 0; node < problem_.graph.node_count(); ++node) {
      missing_[node] = static_cast<int>(problem_.edges.predecessors(node).size());
      if (missing_[node] == 0 && !problem_.graph.node(node).is_view) ready_.insert({-levels_[node], node});
    }
    for (start_ready_nodes(); !running_.empty(); start_ready_nodes()) finish_next();
    schedule_.makespan = now_;
    return std::move(schedule_);
  }

 private:
  struct Running {
    double finish;
    NodeId node;
    int width;
  };
  struct Start {
    double time = kNever;
    double finish = kNever;
    int choice = -1;
  };

  int free_streams() const { return problem_.streams - static_cast<int>(running_.size()); }

  void start_ready_nodes() {
    const bool in_turn = sharing_ == Sharing::fastest || (sharing_ == Sharing::balanced && better_in_turn());
    double reserved = kNever;  // when a more important node will start that waits for capacity
    int passed_over = 0;
    for (auto it = ready_.begin(); it != ready_.end() && passed_over < kLookahead;) {
      if (free_units_ == 0 || free_streams() == 0) return;
      const NodeId node = it->second;
      const int limit = in_turn ? problem_.capacity : share();
      const Start start = best_start(node, limit, reserved);
      if (problem_.log != nullptr) note(node, start, limit, in_turn, reserved);
      if (start.time == now_) {
        launch(node, start);
        it = ready_.erase(it);
      } else {
        reserved = std::min(reserved, start.time);
        ++passed_over;
        ++it;
      }
    }
  }

  /// The largest width that leaves as much for every other node that could start now.
  int share() const { return free_units_ / std::min(static_cast<int>(ready_.size()), free_streams()); }

  /// Whether the most important ready nodes are over sooner if each runs as fast as it can, one after another, than if
  /// they run together at their smallest widths.
  bool better_in_turn() const {
    const int slots = std::min({free_units_, free_streams(), kLookahead});
    if (slots < 2) return true;
    std::vector<double> busy_until(slots);
    double in_turn = 0;
    int looked = 0;
    for (const auto& [level, node] : ready_) {
      if (looked++ == kLookahead) break;
      *std::ranges::min_element(busy_until) += problem_.costs.choice(node, 0).duration;
      double fastest = kNever;
      for (const Choice& choice : problem_.costs.choices(node)) {
        if (choice.width <= free_units_ || fastest == kNever) fastest = std::min(fastest, choice.duration);
      }
      in_turn += fastest;
    }
    return in_turn < std::ranges::max(busy_until);
  }

  /// The start that finishes the node first, at its smallest width or at one up to `limit`. While capacity is reserved
  /// it must be over by then.
  Start best_start(NodeId node, int limit, double reserved) const {
    Start best;
    const auto choices = problem_.costs.choices(node);
    for (int i = 0; i < static_cast<int>(choices.size()); ++i) {
      if (i > 0 && choices[i].width > limit) break;
      const double time = available(choices[i].width);
      const double finish = time + choices[i].duration;
      if (reserved != kNever && (time > now_ || finish > reserved)) continue;
      if (finish < best.finish) best = {time, finish, i};
    }
    return best;
  }

  /// When `width` units are free if nothing else starts.
  double available(int width) const {
    int units = free_units_;
    if (units >= width) return now_;
    for (const Running& running : running_) {
      units += running.width;
      if (units >= width) return running.finish;
    }
    return kNever;
  }

  void launch(NodeId node, const Start& start) {
    const int width = problem_.costs.choice(node, start.choice).width;
    const auto [stream, reason] = choose_stream(node, width);
    if (problem_.log != nullptr) {
      ScheduleLog::Pick& pick = problem_.log->attempts.back().picks.back();
      pick.stream = stream;
      pick.reason = reason;
    }
    schedule_.placements[node] = {stream, start.choice, now_, start.finish};
    schedule_.order.push_back(node);
    busy_[stream] = true;
    free_units_ -= width;
    const auto place = std::ranges::upper_bound(running_, start.finish, {}, &Running::finish);
    running_.insert(place, {start.finish, node, width});
  }

  /// Wide nodes go to stream 0 if it is free, so that on CPU one worker owns the wide team of threads. Others, and all
  /// on a GPU, follow the predecessor that finished last, which saves a wait.
  std::pair<int, ScheduleLog::StreamReason> choose_stream(NodeId node, int width) const {
    using enum ScheduleLog::StreamReason;
    if (width > 1 && !busy_[0] && !problem_.shares_units) return {0, wide};
    int stream = -1;
    double latest = -1;
    for (const NodeId predecessor : problem_.edges.predecessors(node)) {
      const Placement& before = schedule_.placements[predecessor];
      if (!busy_[before.stream] && before.finish > latest) {
        latest = before.finish;
        stream = before.stream;
      }
    }
    if (stream >= 0) return {stream, after_predecessor};
    return {static_cast<int>(std::ranges::find(busy_, false) - busy_.begin()), first_free};
  }

  /// Tells the log of a decision, before anything starts by it.
  void note(NodeId node, const Start& start, int limit, bool in_turn, double reserved) const {
    ScheduleLog::Pick pick{.time = now_,
                           .free_units = free_units_,
                           .free_streams = free_streams(),
                           .node = node,
                           .limit = limit,
                           .in_turn = in_turn,
                           .reserved = reserved,
                           .choice = start.choice,
                           .start = start.time,
                           .finish = start.finish};
    for (const auto& [level, ready] : ready_) pick.ready.emplace_back(ready, -level);
    problem_.log->attempts.back().picks.push_back(std::move(pick));
  }

  /// Moves the clock to the next finish.
  void finish_next() {
    now_ = running_.front().finish;
    while (!running_.empty() && running_.front().finish <= now_) {
      const Running over = running_.front();
      running_.erase(running_.begin());
      busy_[schedule_.placements[over.node].stream] = false;
      free_units_ += over.width;
      for (const NodeId successor : problem_.edges.successors(over.node)) {
        if (--missing_[successor] == 0) ready_.insert({-levels_[successor], successor});
      }
    }
  }

  const Problem& problem_;
  const std::vector<double>& levels_;
  const Sharing sharing_;
  double now_ = 0;
  int free_units_;
  std::vector<bool> busy_;                     // per stream
  std::vector<int> missing_;                   // per node: predecessors that are not over
  std::set<std::pair<double, NodeId>> ready_;  // (-bottom level, node): the most important first
  std::vector<Running> running_;               // by finish; at most one per stream
  Schedule schedule_;
};

}  // namespace

Schedule critical_path(const Problem& problem) {
  Schedule best = serial(problem);
  const std::vector<double> levels = bottom_levels(problem.edges, problem.costs);
  if (problem.log != nullptr) problem.log->attempts = {{.rule = "serial", .picks = {}, .makespan = best.makespan}};
  for (const Sharing sharing : {Sharing::equal, Sharing::balanced, Sharing::fastest}) {
    if (problem.log != nullptr) problem.log->attempts.push_back({.rule = name_of(sharing)});
    Schedule schedule = ListScheduler(problem, levels, sharing).run();
    if (problem.log != nullptr) problem.log->attempts.back().makespan = schedule.makespan;
    // A gain within rounding is none: then the simpler schedule stays.
    if (schedule.makespan >= best.makespan * (1 - 1e-9)) continue;
    best = std::move(schedule);
    if (problem.log != nullptr) problem.log->kept = problem.log->attempts.size() - 1;
  }
  if (!problem.shares_units) add_capacity_edges(problem, best);
  return best;
}

}  // namespace braid
