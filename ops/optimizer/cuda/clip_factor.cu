// Every block sums the squares of a piece of the gradients; one block then adds the sums, in an order that depends on
// their number alone.

#include <cmath>

#include "ops/kernels/cuda/block_reduce.cuh"
#include "ops/kernels/cuda/tensor_list.cuh"
#include "ops/optimizer/arithmetic.h"
#include "ops/optimizer/clip_factor.h"

namespace braid::cuda {

namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    squared_norm_kernel(const __grid_constant__ TensorList<1> list, double* sums) {
  constexpr int kWidth = kVectorWidth<T>;
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  const T* const gradient = static_cast<const T*>(list.address[0][piece.tensor]);
  Compute<T> sum = 0;  // sum of a few dozen elements
  for_each_in_piece<kWidth>(piece, is_aligned<kWidth>(gradient), [&]<int kLanes>(std::int64_t e) {
    const auto lanes = load<kLanes>(gradient + e);
    for_lanes<kLanes>([&](int i) { sum += lanes[i] * lanes[i]; });
  });
  const double total = block_sum<kThreads>(static_cast<double>(sum));
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    clip_kernel(std::int64_t count, const double* sums, arithmetic::ClipStep step, const double* factor,
                double* clipped, double* norm) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) sum += sums[i];
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) step(std::sqrt(sum), factor == nullptr ? 1 : *factor, *clipped, *norm);
}

}  // namespace

Implementations make_clip_factor(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::ClipFactor&>(spec.op);
  const bool scaled = op.attributes().scaled;
  const ReducedTensors gradients(spec.inputs, op.scalars());
  const arithmetic::ClipStep step{op.attributes().max_norm};
  const auto pieces = static_cast<std::size_t>(gradients.pieces());
  return function_kernel(pieces * sizeof(double), [=](const StreamHandles& stream, auto inputs, auto outputs,
                                                      void* workspace) {
    double* const sums = static_cast<double*>(workspace);
    gradients(inputs, [&]<class T>(const TensorList<1>& list, std::int64_t first) {
      launch(stream, list.launch_shape(), squared_norm_kernel<T>, list, sums + first);
    });
    launch(stream, {.grid = 1, .block = kThreads}, clip_kernel, gradients.pieces(), static_cast<const double*>(sums),
           step, scaled ? at<const double>(inputs, 0) : nullptr, at<double>(outputs, 0), at<double>(outputs, 1));
  });
}

}  // namespace braid::cuda
