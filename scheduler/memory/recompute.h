#pragma once
// Trades time for memory: an activation that the backward pass reads long after the forward pass made it need not be
// kept if it is cheap to recompute (Chen et al., "Training deep nets with sublinear memory cost", 2016, section 3). The
// node that made it runs again just before the first backward node that reads it, with the same kernel on the same
// inputs: results keep their bits.

#include "core/graph/graph_copy.h"
#include "scheduler/plan.h"

namespace braid::scheduler {

/// Whether recompute() takes a value: an activation that owns its bytes and is not kept, made by a node of the forward
/// pass whose op says how to recompute it (Op::recompute), or has no effect but its outputs.
bool can_recompute(const StepGraph& graph, ValueId value);
/// Whether recomputing it is also cheap: the op says how.
bool is_cheap_to_recompute(const StepGraph& graph, ValueId value);
/// The values that are marked as `recomputed` in the graph and can be.
std::vector<ValueId> marked_values(const StepGraph& graph);

/// The graph with these values computed again for their backward readers. What a recomputed node reads is the first
/// computation, which then lives until then, or the second if it is among the values itself. Nodes that recompute
/// others are not among its first_nodes(). Throws Error if a value cannot be recomputed, ShapeError if a recomputed
/// node would read a parameter that has been overwritten by then.
RewrittenGraph recompute(const StepGraph& graph, std::span<const ValueId> values);

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
