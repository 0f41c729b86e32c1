#pragma once
// Fuses batch norms into the convolutions that read them, for CPUs with AVX-512.

#include "core/graph/graph_copy.h"

namespace braid::ops {

/// Replaces a batch norm whose result only convolutions read by its statistics, and these convolutions and their
/// filters' gradients by those of ops/conv/normalized_conv2d.h, if all of them then normalise as they read, given
/// KernelSpec::direct. Leaves batch norms that add a residual, whose result is kept, or of a shard. Saves memory; gives
/// the same bits if the compiler fuses multiplications and additions in batch norm's loops, as GCC does.
RewrittenGraph fuse_normalization(StepGraph graph, bool direct);

}  // namespace braid::ops
