#pragma once
// Rewrites that join several nodes in one, so that the values between them need not go to memory.

#include "core/graph/graph_copy.h"

namespace braid::ops {

/// Fuses an elementwise node into the only reader of its output, if that is elementwise too, has the same shape and
/// belongs to the same pass, and nothing else needs the value. Only for f32 and f64: in the other types each node
/// rounds its output. Every element is computed by the same functions in the same order, so results keep their bits.
RewrittenGraph fuse_elementwise(StepGraph graph);

/// For CPUs with AVX-512: replaces a batch norm whose result only convolutions read by its statistics, and these
/// convolutions and their filters' gradients by those of ops/conv/normalized_conv2d.h, if all of them then normalise as
/// they read, given KernelSpec::direct. Leaves batch norms that add a residual, whose result is kept, or of a shard.
/// Saves memory; gives the same bits if the compiler fuses multiplications and additions in batch norm's loops, as GCC
/// does.
RewrittenGraph fuse_normalization(StepGraph graph, bool direct);

}  // namespace braid::ops
