#pragma once

#include "ops/kernels/kernels.h"

namespace braid::cpu {

/// Whether the kernel of a NormalizedConv2d or NormalizedConv2dBackwardFilter normalises as it reads, instead of first.
/// Depends on the processor that it runs on.
bool normalizes_on_load(const KernelSpec& spec);

}  // namespace braid::cpu
