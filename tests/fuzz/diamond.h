#pragma once
// A small step to plan. The plans and the profiles in the corpus are of it.

#include "scheduler/plan.h"
#include "tests/scheduler/random_graph.h"

namespace braid::fuzz {

/// Two branches that meet.
inline StepGraph diamond() {
  using namespace scheduler::testing;
  StepGraph graph;
  const ValueId top = add(graph, {graph.add_input(bytes_desc(100))});
  graph.keep(add(graph, {add(graph, {top}, 1000), add(graph, {top}, 2000)}));
  return graph;
}

/// Two implementations of every node.
inline scheduler::Costs diamond_costs() {
  return scheduler::testing::costs_of(std::vector<std::vector<scheduler::Cost>>(
      4, {{.width = 1, .duration = 3, .workspace_bytes = 512}, {.width = 2, .duration = 2}}));
}

}  // namespace braid::fuzz
