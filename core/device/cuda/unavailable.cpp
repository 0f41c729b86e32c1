// Takes the place of the CUDA backend in builds without CUDA.

#include "core/base/error.h"
#include "core/device/cuda/cuda_backend.h"
#include "core/device/cuda/loaded/kernel_tracing.h"

namespace braid::cuda {

std::string unavailable_reason() { return "this build of Braid has no CUDA backend"; }

int device_count() { return 0; }

std::unique_ptr<Backend> make_backend(int index) {
  throw DeviceError(message("[cuda:", index, "] ", unavailable_reason(), ": use device 'cpu'"));
}

KernelTracing::KernelTracing() : problem_(unavailable_reason()) {}
KernelTracing::~KernelTracing() = default;

}  // namespace braid::cuda
