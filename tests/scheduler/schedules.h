#pragma once
// Schedules of small problems, and the run of a plan on a device.

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/scheduler/random_graph.h"

namespace braid::scheduler::testing {

inline Schedule schedule_of(Policy policy, const StepGraph& graph, const Costs& costs, int streams, int capacity) {
  return policy(make_problem(graph, costs, streams, capacity));
}

/// Costs where node i has the implementations listed for it.
inline Costs costs_of(const std::vector<std::vector<Cost>>& nodes) {
  Costs costs;
  for (const auto& implementations : nodes) costs.add(implementations);
  return costs;
}

/// Costs where node i has one implementation.
inline Costs choices_of(const std::vector<Cost>& nodes) {
  Costs costs;
  for (const Cost& cost : nodes) costs.add({&cost, 1});
  return costs;
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
  std::vector<double> clock(plan.commands.streams.size()), event(plan.commands.events, -1);
  std::vector<std::size_t> next(plan.commands.streams.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t s = 0; s < plan.commands.streams.size(); ++s) {
      for (; next[s] < plan.commands.streams[s].size(); ++next[s], progress = true) {
        const auto [kind, index] = plan.commands.streams[s][next[s]];
        if (kind == Command::Kind::wait && event[index] < 0) break;
        if (kind == Command::Kind::wait) clock[s] = std::max(clock[s], event[index]);
        if (kind == Command::Kind::record) event[index] = clock[s];
        if (kind != Command::Kind::launch) continue;
        const double start = clock[s];
        clock[s] += durations[index];
        intervals.push_back({start, clock[s], costs.of(index, plan.placements[index].implementation).width});
      }
    }
  }
  return intervals;
}

}  // namespace braid::scheduler::testing
