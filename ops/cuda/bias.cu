#include "core/cuda/launch.h"
#include "core/error.h"
#include "ops/arithmetic.h"
#include "ops/cuda/bias.h"
#include "ops/cuda/elements.cuh"

namespace braid::cuda {

namespace {

constexpr int kThreads = 256;
/// Beyond, blocks walk over the tensor with this stride: some waves of blocks on any device.
constexpr std::int64_t kMostBlocks = 4096;

template <class T>
__global__ void add_bias_kernel(T* y, const T* bias, bool relu, std::int64_t size, std::int64_t channels) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < size; i += stride) {
    Compute<T> value = widen(y[i]);
    if (bias != nullptr) value += widen(bias[i % channels]);
    if (relu) value = arithmetic::Relu<Compute<T>>{}(value);
    y[i] = narrow<T>(value);
  }
}

template <class T>
void run(const StreamHandles& stream, void* y, const void* bias, bool relu, std::int64_t size, std::int64_t channels) {
  const std::int64_t blocks = std::min((size + kThreads - 1) / kThreads, kMostBlocks);
  const LaunchShape shape{.grid = static_cast<unsigned>(blocks), .block = kThreads};
  launch(stream, shape, add_bias_kernel<T>, static_cast<T*>(y), static_cast<const T*>(bias), relu, size, channels);
}

}  // namespace

void add_bias(const StreamHandles& stream, void* y, const void* bias, Activation activation, std::int64_t rows,
              std::int64_t channels, DType dtype) {
  const std::int64_t size = rows * channels;
  const bool relu = activation == Activation::relu;
  switch (dtype) {
    case DType::f32: return run<float>(stream, y, bias, relu, size, channels);
    case DType::f64: return run<double>(stream, y, bias, relu, size, channels);
    case DType::f16: return run<Half>(stream, y, bias, relu, size, channels);
    case DType::bf16: return run<BFloat16>(stream, y, bias, relu, size, channels);
    default: throw Error(message("[bias] expected a floating dtype, got ", dtype));
  }
}

}  // namespace braid::cuda
