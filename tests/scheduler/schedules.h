#pragma once
// Schedules of small problems, and the run of a plan on a device.

#include <algorithm>
#include <utility>
#include <vector>

#include "scheduler/command_order.h"
#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {

inline Schedule schedule_of(Policy policy, const StepGraph& graph, const Costs& costs, int streams, int capacity) {
  return policy(make_problem(graph, costs, streams, capacity));
}

/// A schedule that puts node i on streams[i], in recording order.
inline Schedule on_streams(const std::vector<int>& streams) {
  Schedule schedule;
  for (const int stream : streams) {
    schedule.order.push_back(static_cast<NodeId>(schedule.placements.size()));
    schedule.placements.push_back({.stream = stream});
  }
  return schedule;
}

inline Plan commands_of(const StepGraph& graph, const Schedule& schedule, int streams) {
  Plan plan;
  plan.placements = schedule.placements;
  add_commands(graph.edges(), schedule, streams, plan);
  return plan;
}

struct Interval {
  double start, finish;
  int width;
};

/// The most capacity asked for at any time. What ends at a time makes room for what starts then.
inline int peak_width(const std::vector<Interval>& intervals) {
  std::vector<std::pair<double, int>> steps;
  for (const Interval& interval : intervals) {
    if (interval.finish <= interval.start) continue;
    steps.emplace_back(interval.start, interval.width);
    steps.emplace_back(interval.finish, -interval.width);
  }
  std::ranges::sort(steps);
  int width = 0, peak = 0;
  for (const auto& [time, change] : steps) peak = std::max(peak, width += change);
  return peak;
}

/// Runs the command lists of a plan with these durations, as a device would.
inline std::vector<Interval> run(const Plan& plan, const Costs& costs, const std::vector<double>& durations) {
  std::vector<Interval> intervals;
  std::vector<double> finish(durations.size());
  const CommandOrder order(plan.commands, costs.node_count());
  for (const NodeId node : order.sequence()) {
    double start = 0;
    for (const NodeId before : order.followed(node)) start = std::max(start, finish[before]);
    finish[node] = start + durations[node];
    intervals.push_back({start, finish[node], costs.of(node, plan.placements[node].implementation).width});
  }
  return intervals;
}

}  // namespace braid::scheduler::testing
