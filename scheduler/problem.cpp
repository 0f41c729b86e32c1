#include "scheduler/problem.h"

#include <algorithm>
#include <cmath>

#include "core/text/text.h"

namespace braid::scheduler {

Problem make_problem(StepGraph graph, Costs costs, int streams, int capacity, bool oversubscribes) {
  Edges edges = graph.edges();
  int links = 0;
  for (NodeId node = 0; node < costs.node_count(); ++node) links = std::max(links, costs.link(node) + 1);
  return {{.streams = streams, .capacity = capacity, .oversubscribes = oversubscribes, .links = links},
          std::move(graph),
          std::move(edges),
          std::move(costs)};
}

Problem make_problem(StepGraph graph, Costs costs, const DeviceInfo& device, int streams, const Profile* profile,
                     bool tf32) {
  Problem problem = make_problem(std::move(graph), std::move(costs), streams, device.capacity, device.oversubscribes);
  if (profile == nullptr) return problem;
  problem.interference = interference(*profile, problem.graph, problem.costs, tf32);
  problem.wait_microseconds = profile->wait_microseconds;
  return problem;
}

Costs CostModel::costs(const StepGraph& graph) const {
  Costs costs = analytic_costs(graph, device, widths, tf32);
  if (profile != nullptr) apply(*profile, graph, costs, tf32);
  return costs;
}

Problem CostModel::problem(StepGraph graph, int streams) const {
  Costs its = costs(graph);
  return make_problem(std::move(graph), std::move(its), device, streams, profile, tf32);
}

Problem with_graph(const Problem& problem, StepGraph graph, std::span<const NodeId> origin) {
  Edges edges = graph.edges();
  const Cost nothing;
  Costs costs;
  for (const NodeId node : origin) costs.add(node == kNoNode ? std::span(&nothing, 1) : problem.costs.of(node));
  return {problem, std::move(graph), std::move(edges), std::move(costs), problem.interference.reindexed(origin)};
}

Problem with_edges(Problem problem, Edges edges) {
  problem.edges = std::move(edges);
  problem.log = nullptr;
  return problem;
}

Problem with_streams(Problem problem, int streams) {
  problem.streams = streams;
  return problem;
}

void check_problem(const Problem& problem) {
  BRAID_CHECK(problem.streams >= 1, PlanError, "[plan] expected at least 1 stream, got ", problem.streams);
  BRAID_CHECK(problem.capacity >= 1, PlanError, "[plan] expected a capacity of at least 1, got ", problem.capacity);
  BRAID_CHECK(problem.costs.node_count() == problem.graph.node_count(), PlanError, "[plan] expected costs of ",
              plural(problem.graph.node_count(), "node"), ", got ", problem.costs.node_count());
  for (NodeId id = 0; id < problem.costs.node_count(); ++id) {
    const int link = problem.costs.link(id);
    BRAID_CHECK(link >= kNoLink && link < problem.links, PlanError, "[plan] node ", id, " occupies link ", link, " of ",
                problem.links);
    BRAID_CHECK(link != kNoLink || !problem.graph.communicates(id), PlanError, "[plan] node ", id, " '",
                problem.graph.node(id).op->name(), "' communicates, but its cost names no link");
    for (const Cost& cost : problem.costs.of(id)) {
      BRAID_CHECK(cost.link == link, PlanError, "[plan] node ", id, " has implementations on different links");
      BRAID_CHECK(cost.width >= (link == kNoLink ? 1 : 0) && cost.width <= problem.capacity && cost.duration >= 0 &&
                      std::isfinite(cost.duration),
                  PlanError, "[plan] node ", id, " '", problem.graph.node(id).op->name(),
                  "' has an implementation of width ", cost.width, " and duration ", cost.duration,
                  " us; the capacity is ", problem.capacity);
    }
  }
}

}  // namespace braid::scheduler
