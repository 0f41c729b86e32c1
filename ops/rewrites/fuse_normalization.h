#pragma once
// A rewrite for the CPU: batch norms whose result is read only by convolutions that can normalise as they read.

#include "core/graph/graph_copy.h"

namespace braid::ops {

/// Replaces such a batch norm by its statistics, and the convolutions and their filters' gradients that read it by
/// those of ops/conv/normalized_conv2d.h. Gives the same bits, in less memory. Leaves batch norms that add a residual,
/// whose result is kept, or that something else reads, and all where a kernel would normalise first.
RewrittenGraph fuse_normalization(StepGraph graph);

}  // namespace braid::ops
