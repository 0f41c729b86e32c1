#include <algorithm>
#include <array>
#include <cmath>

#include "ops/kernels/cuda/tensor_list.cuh"
#include "ops/optimizer/arithmetic.h"
#include "ops/optimizer/optimizer.h"

namespace braid::cuda {

namespace {

// A kernel updates parameters of type T by gradients of type G. With kCopies = 1, it writes copies of type G in the
// same pass. Addresses in the lists: parameter, gradient, moments, copy.

/// The factor of the gradients; 0 skips the update. `factor` is null for gradients that are not scaled.
__device__ inline double gradient_factor(const double* factor) { return factor == nullptr ? 1 : *factor; }

template <class T, class G, int kMoments, int kCopies>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(const __grid_constant__ TensorList<2 + kMoments + kCopies> list, SgdOptions options,
               const double* learning_rate, const double* factor) {
  constexpr int kWidth = kVectorWidth<T>;
  const double wide_scale = gradient_factor(factor);
  if (wide_scale == 0) return;
  const T scale = static_cast<T>(wide_scale);
  const auto step = arithmetic::SgdStep<T>::make(options, *learning_rate);
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  T* const p = static_cast<T*>(list.address[0][piece.tensor]);
  const G* const gradient = static_cast<const G*>(list.address[1][piece.tensor]);
  T* const m = static_cast<T*>(list.address[kMoments == 0 ? 0 : 2][piece.tensor]);      // without momentum not used
  G* const copy = static_cast<G*>(list.address[1 + kMoments + kCopies][piece.tensor]);  // likewise
  const bool aligned = is_aligned<kWidth>(p, m) && is_aligned<kWidth>(gradient, copy);
  for_each_in_piece<kWidth>(piece, aligned, [&]<int kLanes>(std::int64_t e) {
    auto parameters = load<kLanes>(p + e);
    const auto gradients = load<kLanes>(gradient + e);
    if constexpr (kMoments == 0) {
      for_lanes<kLanes>([&](int i) { step(parameters[i], scale * gradients[i]); });
    } else {
      auto moments = load<kLanes>(m + e);
      for_lanes<kLanes>([&](int i) { step(parameters[i], scale * gradients[i], moments[i]); });
      store<kLanes>(m + e, moments);
    }
    store<kLanes>(p + e, parameters);
    if constexpr (kCopies == 1) store<kLanes>(copy + e, parameters);
  });
}

template <class T, class G, int kCopies>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const __grid_constant__ TensorList<4 + kCopies> list, AdamOptions options, const double* learning_rate,
                const std::int32_t* step_number, const double* factor) {
  constexpr int kWidth = kVectorWidth<T>;
  const double wide_scale = gradient_factor(factor);
  if (wide_scale == 0) return;
  const T scale = static_cast<T>(wide_scale);
  __shared__ arithmetic::AdamStep<T> shared_step;  // its powers are too much work for every thread
  if (threadIdx.x == 0) {
    shared_step = arithmetic::AdamStep<T>::make(options, *learning_rate, *step_number);
  }
  __syncthreads();
  const arithmetic::AdamStep<T> step = shared_step;
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  T* const p = static_cast<T*>(list.address[0][piece.tensor]);
  const G* const gradient = static_cast<const G*>(list.address[1][piece.tensor]);
  T* const m = static_cast<T*>(list.address[2][piece.tensor]);
  T* const v = static_cast<T*>(list.address[3][piece.tensor]);
  G* const copy = static_cast<G*>(list.address[3 + kCopies][piece.tensor]);  // without copies not used
  const bool aligned = is_aligned<kWidth>(p, m, v) && is_aligned<kWidth>(gradient, copy);
  for_each_in_piece<kWidth>(piece, aligned, [&]<int kLanes>(std::int64_t e) {
    auto parameters = load<kLanes>(p + e), first = load<kLanes>(m + e), second = load<kLanes>(v + e);
    const auto gradients = load<kLanes>(gradient + e);
    for_lanes<kLanes>([&](int i) {
      step(parameters[i], scale * gradients[i], first[i], second[i], [](T x) { return std::sqrt(x); });
    });
    store<kLanes>(p + e, parameters);
    store<kLanes>(m + e, first);
    store<kLanes>(v + e, second);
    if constexpr (kCopies == 1) store<kLanes>(copy + e, parameters);
  });
}

std::vector<std::int64_t> sizes_of(const KernelSpec& spec, std::size_t first, std::size_t stride) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = first; i < spec.inputs.size(); i += stride) {
    BRAID_CHECK(
        spec.inputs[i].dtype == spec.inputs[first].dtype && spec.inputs[i + 1].dtype == spec.inputs[first + 1].dtype,
        Error, "[optimizer] expected parameters of one dtype in a node, and gradients of one");
    sizes.push_back(spec.inputs[i].shape.size());
  }
  return sizes;
}

/// Calls make.operator()<T, G, kCopies>() for parameters of type T and gradients of type G.
template <class Make>
auto for_update_types(const KernelSpec& spec, std::size_t first, bool copies, const Make& make) {
  return for_any_float(spec.inputs[first + 1].dtype, [&]<class G>() {
    using T = Compute<G>;
    if constexpr (std::is_same_v<T, G>) {
      if (!copies) return make.template operator()<T, G, 0>();
    }
    return make.template operator()<T, G, 1>();
  });
}

/// `launch_list(stream, list, inputs)` for lists of all parameters.
template <int kPointers, class LaunchList>
std::unique_ptr<Kernel> update_kernel(const KernelSpec& spec, std::size_t scalars, const LaunchList& launch_list) {
  return function_kernel(
      [=, sizes = sizes_of(spec, scalars, kPointers)](const StreamHandles& stream, auto inputs, auto outputs) {
        const auto add = [&](TensorList<kPointers>& list, std::size_t i) {
          // Outputs are new versions of all inputs but the gradient, at the addresses of the old ones.
          std::array<void*, kPointers> addresses{outputs[i * (kPointers - 1)], inputs[scalars + i * kPointers + 1]};
          std::copy_n(outputs.begin() + static_cast<std::ptrdiff_t>(i * (kPointers - 1) + 1), kPointers - 2,
                      addresses.begin() + 2);
          list.add(addresses, sizes[i]);
        };
        for_tensor_lists<kPointers>(sizes.size(), add, [&](const auto& list) { launch_list(stream, list, inputs); });
      });
}

template <class T, class G, int kMoments, int kCopies>
std::unique_ptr<Kernel> sgd(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::SgdUpdate&>(spec.op);
  return update_kernel<2 + kMoments + kCopies>(
      spec, op.scalars(), [options = op.attributes()](const auto& stream, const auto& list, auto inputs) {
        launch(stream, list.launch_shape(), sgd_kernel<T, G, kMoments, kCopies>, list, options,
               at<const double>(inputs, 0), options.scaled ? at<const double>(inputs, 1) : nullptr);
      });
}

}  // namespace

Implementations make_sgd_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::SgdUpdate&>(spec.op);
  const SgdOptions& options = op.attributes();
  return for_update_types(spec, op.scalars(), options.rounded, [&]<class T, class G, int kCopies>() {
    return options.momentum != 0 ? sgd<T, G, 1, kCopies>(spec) : sgd<T, G, 0, kCopies>(spec);
  });
}

Implementations make_adam_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::AdamUpdate&>(spec.op);
  const std::size_t scalars = op.scalars();
  return for_update_types(spec, scalars, op.attributes().rounded, [&]<class T, class G, int kCopies>() {
    return update_kernel<4 + kCopies>(
        spec, scalars, [options = op.attributes()](const auto& stream, const auto& list, auto inputs) {
          launch(stream, list.launch_shape(), adam_kernel<T, G, kCopies>, list, options, at<const double>(inputs, 0),
                 at<const std::int32_t>(inputs, 1), options.scaled ? at<const double>(inputs, 2) : nullptr);
        });
  });
}

}  // namespace braid::cuda
