#pragma once
// Fuses chains of elementwise expressions into one node each: intermediate values never go to memory. Every element is
// computed by the same functions in the same order, so results keep their bits.

#include "core/graph/graph_copy.h"

namespace braid::ops {

/// Fuses an elementwise node into the only reader of its output, if that is elementwise too, has the same shape and
/// belongs to the same pass, and nothing else needs the value. Only for f32 and f64: in the other types each node
/// rounds its output.
RewrittenGraph fuse_elementwise(StepGraph graph);

}  // namespace braid::ops
