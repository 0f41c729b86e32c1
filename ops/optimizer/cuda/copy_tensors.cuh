#pragma once
// Copies of many tensors in one launch.

#include "ops/kernels/cuda/tensor_list.cuh"

namespace braid::cuda {

struct TensorCopy {
  void* target;
  const void* source;
  std::int64_t bytes;
};

template <int kWidth>
__global__ void __launch_bounds__(kThreads) copy_kernel(const __grid_constant__ TensorList<2> list) {
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  auto* const target = static_cast<std::uint8_t*>(list.address[0][piece.tensor]);
  const auto* const source = static_cast<const std::uint8_t*>(list.address[1][piece.tensor]);
  for_each_in_piece<kWidth>(piece, is_aligned<kWidth>(target) && is_aligned<kWidth>(source),
                            [&]<int kLanes>(std::int64_t e) {
                              using Bytes = Packed<std::uint8_t, kLanes>;
                              *reinterpret_cast<Bytes*>(target + e) = *reinterpret_cast<const Bytes*>(source + e);
                            });
}

/// copy(i) describes copy i of `count`.
template <class Copy>
void copy_tensors(const StreamHandles& stream, std::size_t count, const Copy& copy) {
  const auto add = [&](TensorList<2>& list, std::size_t i) {
    const TensorCopy one = copy(i);
    list.add(std::array{one.target, const_cast<void*>(one.source)}, one.bytes);
  };
  for_tensor_lists<2>(count, add,
                      [&](const auto& list) { launch(stream, list.launch_shape(), copy_kernel<16>, list); });
}

}  // namespace braid::cuda
