// Takes the place of the CUDA kernels in builds without CUDA.

#include "ops/kernels/own_kernels.h"

namespace braid::cuda {

std::span<const OwnKernel> own_kernels() { return {}; }

std::string device_properties(int index) {
  throw DeviceError(message("[cuda:", index, "] built without CUDA: use device 'cpu'"));
}

}  // namespace braid::cuda
