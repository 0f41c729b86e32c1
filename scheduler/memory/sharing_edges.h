#pragma once
// Values of nodes that are in no order cannot share bytes, even if the one is predicted to be long over when the other
// begins. An edge, which becomes a wait, makes sure of it.

#include <utility>
#include <vector>

#include "scheduler/plan.h"

namespace braid::scheduler {

/// Edges that let the large values of a plan share the bytes of all that have ended, as predicted, when they begin: at
/// most one from each other stream per value. Those of the schedule that the plan was made of come from it.
std::vector<std::pair<NodeId, NodeId>> sharing_edges(const Problem& problem, const Schedule& schedule,
                                                     const Plan& plan);

}  // namespace braid::scheduler
