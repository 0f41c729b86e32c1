#pragma once

#include "tests/scheduler/random_graph.h"
#include "train/report/plan/plan_view.h"

namespace braid::scheduler::testing {

/// A view of the default plan of a random step; every node has its own layer, two levels deep.
inline PlanView random_view(std::uint64_t seed, int streams = 3) {
  const RandomStep step = random_step(seed);
  const Problem problem = make_problem(step.graph, step.costs, streams, step.capacity);
  PlanView view = view_of(problem, make_plan(problem, critical_path, "critical_path"));
  view.title = message("random step ", seed);
  view.device = "no device";
  for (NodeId node = 0; node < view.problem.graph.node_count(); ++node) {
    view.layers.push_back(message("block", node / 10, ".layer", node % 10));
  }
  return view;
}

}  // namespace braid::scheduler::testing
