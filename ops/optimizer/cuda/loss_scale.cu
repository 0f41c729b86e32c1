// Every block checks a piece of the gradients and stores its verdict; one block then combines them and updates the
// scale.

#include "ops/kernels/cuda/block_reduce.cuh"
#include "ops/kernels/cuda/tensor_list.cuh"
#include "ops/optimizer/arithmetic.h"
#include "ops/optimizer/loss_scale.h"

namespace braid::cuda {

namespace {

/// verdicts[block] = 1 if all elements of the block's piece are finite, else 0.
template <class T>
__global__ void __launch_bounds__(kThreads)
    is_finite_kernel(const __grid_constant__ TensorList<1> list, int* verdicts) {
  constexpr int kWidth = kVectorWidth<T>;
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  const T* const gradient = static_cast<const T*>(list.address[0][piece.tensor]);
  int finite = 1;
  for_each_in_piece<kWidth>(piece, is_aligned<kWidth>(gradient), [&]<int kLanes>(std::int64_t e) {
    const auto lanes = load<kLanes>(gradient + e);
    for_lanes<kLanes>([&](int i) { finite &= arithmetic::is_finite(lanes[i]) ? 1 : 0; });
  });
  finite = block_minimum<kThreads>(finite);
  if (threadIdx.x == 0) verdicts[blockIdx.x] = finite;
}

__global__ void __launch_bounds__(kThreads)
    loss_scale_kernel(std::int64_t count, const int* verdicts, arithmetic::LossScaleStep step, float* scale,
                      std::int32_t* good_steps, std::int32_t* updates, double* factor) {
  int finite = 1;
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) finite &= verdicts[i];
  finite = block_minimum<kThreads>(finite);
  if (threadIdx.x == 0) *factor = step(finite == 1, *scale, *good_steps, *updates);
}

}  // namespace

Implementations make_loss_scale_update(const KernelSpec& spec) {
  const ReducedTensors gradients(spec.inputs, ops::LossScaleUpdate::kStates);
  const LossScaleOptions& options = spec.attributes<ops::LossScaleUpdate>();
  const arithmetic::LossScaleStep step{static_cast<float>(options.growth), static_cast<float>(options.backoff),
                                       options.growth_interval};
  const auto pieces = static_cast<std::size_t>(gradients.pieces());
  return function_kernel(pieces * sizeof(int),
                         [=](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
                           int* const verdicts = static_cast<int*>(workspace);
                           gradients(inputs, [&]<class T>(const TensorList<1>& list, std::int64_t first) {
                             launch(stream, list.launch_shape(), is_finite_kernel<T>, list, verdicts + first);
                           });
                           // New versions have the addresses of the old ones.
                           launch(stream, {.grid = 1, .block = kThreads}, loss_scale_kernel, gradients.pieces(),
                                  static_cast<const int*>(verdicts), step, at<float>(outputs, 0),
                                  at<std::int32_t>(outputs, 1), at<std::int32_t>(outputs, 2), at<double>(outputs, 3));
                         });
}

}  // namespace braid::cuda
