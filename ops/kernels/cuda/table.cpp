#include "ops/kernels/own_kernels.h"

namespace braid::cuda {

std::span<const OwnKernel> own_kernels() {
#define BRAID_ENTRY(op) {#op, make_##op},
  static constexpr OwnKernel kKernels[] = {BRAID_FOR_EACH_KERNEL(BRAID_ENTRY)};
#undef BRAID_ENTRY
  return kKernels;
}

}  // namespace braid::cuda
