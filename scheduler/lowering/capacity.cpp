// Durations are predictions, so a schedule that fits the capacity on paper may not in reality: a node that should have
// finished may still be running when a wide one starts. Capacity is therefore handed over explicitly. It is modelled as
// single units (cores); a node holds `width` of them, and wherever it takes one that a node of another stream held
// before, a resource edge orders the two. The users of each unit are then totally ordered, so that whatever the
// durations, nodes that run together hold different units and never ask for more than the capacity. Nodes prefer units
// that need no such edge: with width 1 everywhere and no more streams than units, every stream keeps its own unit, and
// there are none. Edges that the data already implies cost nothing: scheduler/lowering/waits.cpp drops them.

#include <algorithm>
#include <tuple>

#include "scheduler/policy.h"

namespace braid::scheduler {
namespace {

struct Unit {
  NodeId user = kNoNode;  // the last node that held it
  double free_at = 0;
};

/// How well a unit suits: one last held by this stream, by a predecessor or by no node needs no resource edge.
int preference(const Problem& problem, const Schedule& schedule, NodeId node, const Unit& unit) {
  if (unit.user == kNoNode) return 1;
  if (schedule.placements[unit.user].stream == schedule.placements[node].stream) return 0;
  return std::ranges::binary_search(problem.edges.predecessors(node), unit.user) ? 2 : 3;
}

}  // namespace

void add_capacity_edges(const Problem& problem, Schedule& schedule) {
  std::vector<Unit> units(problem.capacity);
  std::vector<std::tuple<int, double, int>> candidates;  // preference, free since, unit
  for (const NodeId node : schedule.order) {
    const Placement& placement = schedule.placements[node];
    const int width = problem.costs.of(node, placement.implementation).width;
    candidates.clear();
    for (int i = 0; i < problem.capacity; ++i) {
      if (units[i].free_at > placement.start) continue;
      candidates.emplace_back(preference(problem, schedule, node, units[i]), units[i].free_at, i);
    }
    BRAID_CHECK(static_cast<int>(candidates.size()) >= width, PlanError, "[capacity] node ", node, " starts at ",
                placement.start, " us with width ", width, ", but the number of free units is ", candidates.size());
    std::ranges::partial_sort(candidates, candidates.begin() + width);
    const auto first_edge = static_cast<std::ptrdiff_t>(schedule.resource_edges.size());
    for (int i = 0; i < width; ++i) {
      const auto& [rank, since, index] = candidates[i];
      if (rank == 3) schedule.resource_edges.emplace_back(units[index].user, node);
      units[index] = {node, placement.finish};
    }
    const auto added = schedule.resource_edges.begin() + first_edge;  // several units may have had the same user
    std::sort(added, schedule.resource_edges.end());
    schedule.resource_edges.erase(std::unique(added, schedule.resource_edges.end()), schedule.resource_edges.end());
  }
}

}  // namespace braid::scheduler
