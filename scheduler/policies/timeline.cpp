#include "scheduler/policies/timeline.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace braid::scheduler {

int equal_share(const Problem& problem, NodeId node) {
  const auto implementations = problem.costs.of(node);
  const int limit = problem.oversubscribes ? problem.capacity : problem.capacity / problem.streams;
  int best = 0;
  for (int i = 1; i < static_cast<int>(implementations.size()) && implementations[i].width <= limit; ++i) {
    if (implementations[i].duration < implementations[best].duration) best = i;
  }
  return best;
}

Timeline::Timeline(const Problem& problem) : problem_(problem), streams_(problem.all_streams()), steps_{{0, {}}} {
  schedule_.placements.resize(problem.graph.node_count());
}

void Timeline::place(NodeId node, int stream) {
  if (const int link = problem_.costs.link(node); link != kNoLink) stream = problem_.streams + link;
  double ready = free_at(stream);
  for (const NodeId predecessor : problem_.edges.predecessors(node)) {
    ready = std::max(ready, placement(predecessor).finish);
  }
  const int index = equal_share(problem_, node);
  const Cost& cost = problem_.costs.of(node, index);
  const double start = earliest(ready, cost);
  const double finish = start + cost.duration;
  occupy(start, cost);
  schedule_.placements[node] = {stream, index, start, finish};
  schedule_.order.push_back(node);
  schedule_.makespan = std::max(schedule_.makespan, finish);
  streams_[stream] = {finish, node};
}

int Timeline::first_free() const {
  const auto key = [](const Stream& stream) { return std::pair(stream.free_at, stream.last != kNoNode); };
  const auto computing = std::span(streams_).first(static_cast<std::size_t>(problem_.streams));
  return static_cast<int>(std::ranges::min_element(computing, {}, key) - computing.begin());
}

/// The first time from `ready` on at which there is room for the whole duration. The first step of a run may be one at
/// which nodes of no duration start: they have finished when it starts. Later ones need their units.
double Timeline::earliest(double ready, const Cost& cost) const {
  double start = ready;
  for (auto step = std::prev(steps_.upper_bound(ready)); step != steps_.end(); ++step) {
    const auto& [time, now] = *step;
    if (time > start && time >= start + cost.duration) break;
    const int room = problem_.capacity - cost.width - now.used;
    if (room < 0) {
      start = std::next(step)->first;  // the last step uses nothing
    } else if (time > start && room < now.instant) {
      start = time;
    }
  }
  return start;
}

void Timeline::occupy(double start, const Cost& cost) {
  const auto first = step_at(start);
  if (start + cost.duration == start) {
    first->second.instant = std::max(first->second.instant, cost.width);
    return;
  }
  const auto end = step_at(start + cost.duration);
  for (auto step = first; step != end; ++step) step->second.used += cost.width;
  merge(first);
  merge(end);
}

/// The step that begins at this time; splits the one that contains it if necessary.
Timeline::Steps::iterator Timeline::step_at(double time) {
  const auto holder = std::prev(steps_.upper_bound(time));
  if (holder->first == time) return holder;
  return steps_.emplace_hint(std::next(holder), time, Step{holder->second.used});
}

/// Drops a step that changes nothing, to keep the list short.
void Timeline::merge(Steps::iterator step) {
  if (step == steps_.begin() || step->second.instant > 0) return;
  if (std::prev(step)->second.used == step->second.used) steps_.erase(step);
}

Schedule Timeline::finish() && {
  // A node starts after its predecessors and those ahead of it in its stream, or at the same time if they take none.
  std::ranges::stable_sort(schedule_.order, {}, [&](NodeId node) { return placement(node).start; });
  if (!problem_.oversubscribes) add_capacity_edges(problem_, schedule_);
  return std::move(schedule_);
}

}  // namespace braid::scheduler
