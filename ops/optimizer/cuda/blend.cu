#include <array>

#include "ops/kernels/cuda/tensor_list.cuh"
#include "ops/optimizer/arithmetic.h"
#include "ops/optimizer/blend.h"

namespace braid::cuda {

namespace {

/// Addresses in the lists: y of type T, x of type X.
template <class T, class X>
__global__ void __launch_bounds__(kThreads)
    blend_kernel(const __grid_constant__ TensorList<2> list, const double* coefficients) {
  constexpr int kWidth = kVectorWidth<T>;
  const arithmetic::Blend<T> blend{static_cast<T>(coefficients[0]), static_cast<T>(coefficients[1])};
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  T* const y = static_cast<T*>(list.address[0][piece.tensor]);
  const X* const x = static_cast<const X*>(list.address[1][piece.tensor]);
  for_each_in_piece<kWidth>(piece, is_aligned<kWidth>(y) && is_aligned<kWidth>(x), [&]<int kLanes>(std::int64_t e) {
    auto blended = load<kLanes>(y + e);
    const auto added = load<kLanes>(x + e);
    for_lanes<kLanes>([&](int i) { blend(blended[i], added[i]); });
    store<kLanes>(y + e, blended);
  });
}

}  // namespace

Implementations make_blend(const KernelSpec& spec) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < spec.inputs.size(); i += 2) {
    const bool same = spec.inputs[i].dtype == spec.inputs[1].dtype && spec.inputs[i + 1].dtype == spec.inputs[2].dtype;
    BRAID_CHECK(same, Error, "[blend] expected pairs of the same two dtypes in a node");
    sizes.push_back(spec.inputs[i].shape.size());
  }
  return for_any_float(spec.inputs[2].dtype, [&]<class X>() {
    return function_kernel([sizes](const StreamHandles& stream, auto inputs, auto outputs) {
      // New versions have the addresses of the old ones.
      const auto add = [&](TensorList<2>& list, std::size_t i) {
        list.add(std::array{outputs[i], inputs[2 + 2 * i]}, sizes[i]);
      };
      for_tensor_lists<2>(sizes.size(), add, [&](const auto& list) {
        launch(stream, list.launch_shape(), blend_kernel<Compute<X>, X>, list, at<const double>(inputs, 0));
      });
    });
  });
}

}  // namespace braid::cuda
