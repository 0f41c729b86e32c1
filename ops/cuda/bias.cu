#include "core/cuda/launch.h"
#include "core/error.h"
#include "ops/cuda/bias.h"
#include "ops/cuda/elements.cuh"

namespace braid::cuda {

namespace {

constexpr int kThreads = 256;
/// Beyond, blocks walk over the tensor with this stride: some waves of blocks on any device.
constexpr std::int64_t kMostBlocks = 4096;

template <class T>
__global__ void add_bias_kernel(T* y, const T* bias, std::int64_t size, std::int64_t channels) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) {
    y[i] = narrow<T>(widen(y[i]) + widen(bias[i % channels]));
  }
}

template <class T>
void run(const StreamHandles& stream, void* y, const void* bias, std::int64_t size, std::int64_t channels) {
  const std::int64_t blocks = std::min((size + kThreads - 1) / kThreads, kMostBlocks);
  const LaunchShape shape{.grid = static_cast<unsigned>(blocks), .block = kThreads};
  launch(stream, shape, add_bias_kernel<T>, static_cast<T*>(y), static_cast<const T*>(bias), size, channels);
}

}  // namespace

void add_bias(const StreamHandles& stream, void* y, const void* bias, std::int64_t rows, std::int64_t channels,
              DType dtype) {
  const std::int64_t size = rows * channels;
  switch (dtype) {
    case DType::f32: return run<float>(stream, y, bias, size, channels);
    case DType::f64: return run<double>(stream, y, bias, size, channels);
    case DType::f16: return run<Half>(stream, y, bias, size, channels);
    case DType::bf16: return run<BFloat16>(stream, y, bias, size, channels);
    default: throw Error(message("[bias] expected a floating dtype, got ", dtype));
  }
}

}  // namespace braid::cuda
