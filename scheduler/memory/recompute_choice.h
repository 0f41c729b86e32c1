#pragma once
// Which activations to recompute where a plan takes too much memory.

#include <vector>

#include "scheduler/memory/recompute.h"
#include "scheduler/plan.h"

namespace braid::scheduler {

/// Adds values to `chosen` (of `graph`) until the most bytes in use at any time have fallen by `excess`, as far as that
/// can be told without planning again: first the value that saves most bytes at the peak per microsecond of
/// recomputation, then the next, and so on. Whatever else must be computed or kept to recompute a value counts against
/// it.
///
/// `current` is the graph with what has been chosen so far recomputed, `plan` a plan of that, `costs` those of `graph`.
/// False if nothing helps.
bool choose_recomputed(const StepGraph& graph, const Costs& costs, const RewrittenGraph& current, const Plan& plan,
                       std::int64_t excess, std::vector<ValueId>& chosen);

}  // namespace braid::scheduler
