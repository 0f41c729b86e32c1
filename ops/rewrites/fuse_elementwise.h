#pragma once
// Chains of elementwise expressions as one node each: what is between them never goes to memory. Every element is
// computed by the same functions in the same order, so results keep their bits.

#include "ops/rewrites/rewritten_graph.h"

namespace braid::ops {

/// Puts an elementwise node into the only reader of its output, if that is one too, has the same shape and belongs to
/// the same pass, and nothing else needs the value. Of f32 and f64: in the other types each node rounds its output.
RewrittenGraph fuse_elementwise(StepGraph graph);

}  // namespace braid::ops
