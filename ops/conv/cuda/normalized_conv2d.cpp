#include "ops/conv/normalized_kernel.h"
#include "ops/kernels/own_kernels.h"

// No session uses these on CUDA: fusion is for the CPU. They make the two devices' ops the same.

namespace braid::cuda {

Implementations make_conv2d_normalized(const KernelSpec& spec) { return normalize_first(DeviceType::cuda, spec); }
Implementations make_conv2d_normalized_backward_filter(const KernelSpec& spec) { return make_conv2d_normalized(spec); }

}  // namespace braid::cuda
