#include "core/cuda/launch.h"
#include "ops/arithmetic.h"
#include "ops/cuda/cuda_kernel.h"
#include "ops/cuda/factories.h"

namespace braid::cuda {

namespace {

template <class T, class F>
__global__ void unary_kernel(const T* x, T* y, std::int64_t size, F f) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) y[i] = f(x[i]);
}

}  // namespace

std::unique_ptr<Kernel> make_relu(const KernelSpec& spec) {
  return function_kernel([size = spec.inputs[0].shape.size()](const StreamHandles& stream, auto inputs, auto outputs) {
    const LaunchShape shape{.grid = static_cast<unsigned>((size + 255) / 256), .block = 256};
    launch(stream, shape, unary_kernel<float, arithmetic::Relu<float>>, at<const float>(inputs, 0),
           at<float>(outputs, 0), size, arithmetic::Relu<float>{});
  });
}

}  // namespace braid::cuda
