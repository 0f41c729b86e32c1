#pragma once
// f16 and bf16 on the CPU: every op's f32 kernel runs on widened copies of its inputs, and its outputs are rounded to
// nearest even. That is what a GPU with f32 accumulators computes, at the cost of the conversions.

#include "ops/kernels/kernels.h"

namespace braid::cpu {

/// Whether an input or output is f16 or bf16.
bool is_low_precision(const KernelSpec& spec);

/// The kernel that `factory` builds for f32, wrapped. The copies lie in the workspace.
std::unique_ptr<Kernel> make_low_precision(const KernelSpec& spec, const KernelFactory& factory);

}  // namespace braid::cpu
