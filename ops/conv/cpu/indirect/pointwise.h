#pragma once
// Convolutions with one tap: a product of a tall matrix, whose rows are the pixels, with the filter.

#include "ops/conv/conv2d.h"
#include "ops/conv/cpu/indirect/panels.h"
#include "ops/kernels/kernels.h"

namespace braid::cpu::indirect {

/// For convolutions with 1x1 filters, stride 1 and no padding, or their backward data.
std::unique_ptr<Kernel> pointwise(const KernelSpec& spec, const Panels& panels, ActivationRange range);

}  // namespace braid::cpu::indirect
