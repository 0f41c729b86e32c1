#include <array>
#include <cmath>

#include "ops/common/arithmetic.h"
#include "ops/cuda/tensor_list.cuh"
#include "ops/optimizer.h"

namespace braid::cuda {

namespace {

// Addresses in the lists: parameter, gradient, and one or two moments.

/// What gradients are multiplied by; 0 means that the update is skipped. `factor` is null for gradients that are not
/// scaled.
__device__ inline float gradient_factor(const float* factor) { return factor == nullptr ? 1 : *factor; }

template <class T, int kMoments>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(const __grid_constant__ TensorList<2 + kMoments> list, SgdOptions options, const float* learning_rate,
               const float* factor) {
  constexpr int kWidth = kVectorWidth<T>;
  const float scale = gradient_factor(factor);
  if (scale == 0) return;
  const auto step = arithmetic::SgdStep<T>::make(options, static_cast<double>(*learning_rate));
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  T* const p = static_cast<T*>(list.address[0][piece.tensor]);
  const T* const gradient = static_cast<const T*>(list.address[1][piece.tensor]);
  T* const m = static_cast<T*>(list.address[1 + kMoments][piece.tensor]);  // the gradient, unread, without momentum
  for_each_in_piece<kWidth>(piece, is_aligned<kWidth>(p, gradient, m), [&]<int kLanes>(std::int64_t e) {
    auto parameters = load<kLanes>(p + e);
    const auto gradients = load<kLanes>(gradient + e);
    if constexpr (kMoments == 0) {
      for_lanes<kLanes>([&](int i) { step(parameters[i], static_cast<T>(scale) * gradients[i]); });
    } else {
      auto moments = load<kLanes>(m + e);
      for_lanes<kLanes>([&](int i) { step(parameters[i], static_cast<T>(scale) * gradients[i], moments[i]); });
      store<kLanes>(m + e, moments);
    }
    store<kLanes>(p + e, parameters);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    adam_kernel(const __grid_constant__ TensorList<4> list, AdamOptions options, const float* learning_rate,
                const std::int32_t* step_number, const float* factor) {
  constexpr int kWidth = kVectorWidth<T>;
  const float scale = gradient_factor(factor);
  if (scale == 0) return;
  __shared__ arithmetic::AdamStep<T> shared_step;  // its powers are too much work for every thread
  if (threadIdx.x == 0) {
    shared_step = arithmetic::AdamStep<T>::make(options, static_cast<double>(*learning_rate), *step_number);
  }
  __syncthreads();
  const arithmetic::AdamStep<T> step = shared_step;
  const TensorPiece piece(list, static_cast<int>(blockIdx.x));
  T* const p = static_cast<T*>(list.address[0][piece.tensor]);
  const T* const gradient = static_cast<const T*>(list.address[1][piece.tensor]);
  T* const m = static_cast<T*>(list.address[2][piece.tensor]);
  T* const v = static_cast<T*>(list.address[3][piece.tensor]);
  for_each_in_piece<kWidth>(piece, is_aligned<kWidth>(p, gradient, m, v), [&]<int kLanes>(std::int64_t e) {
    auto parameters = load<kLanes>(p + e), first = load<kLanes>(m + e), second = load<kLanes>(v + e);
    const auto gradients = load<kLanes>(gradient + e);
    for_lanes<kLanes>([&](int i) {
      step(parameters[i], static_cast<T>(scale) * gradients[i], first[i], second[i], [](T x) { return std::sqrt(x); });
    });
    store<kLanes>(p + e, parameters);
    store<kLanes>(m + e, first);
    store<kLanes>(v + e, second);
  });
}

std::vector<std::int64_t> sizes_of(const KernelSpec& spec, std::size_t first, std::size_t stride) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = first; i < spec.inputs.size(); i += stride) {
    BRAID_CHECK(spec.inputs[i].dtype == spec.inputs[first].dtype, Error,
                "[optimizer] expected parameters of one dtype in a node, got ", spec.inputs[first].dtype, " and ",
                spec.inputs[i].dtype);
    sizes.push_back(spec.inputs[i].shape.size());
  }
  return sizes;
}

template <class T, int kMoments>
std::unique_ptr<Kernel> sgd(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::SgdUpdate&>(spec.op);
  const auto scalars = static_cast<std::size_t>(op.scalars());
  return function_kernel([=, options = op.attributes(), sizes = sizes_of(spec, scalars, 2 + kMoments)](
                             const StreamHandles& stream, auto inputs, auto outputs) {
    const auto add = [&](TensorList<2 + kMoments>& list, std::size_t i) {
      std::array<void*, 2 + kMoments> addresses;
      addresses[0] = outputs[i * (1 + kMoments)];  // new versions have the addresses of the old ones
      addresses[1] = inputs[scalars + i * (2 + kMoments) + 1];
      if constexpr (kMoments == 1) addresses[2] = outputs[i * 2 + 1];
      list.add(addresses, sizes[i]);
    };
    for_tensor_lists<2 + kMoments>(sizes.size(), add, [&](const auto& list, std::int64_t) {
      launch(stream, {.grid = static_cast<unsigned>(list.pieces()), .block = kThreads}, sgd_kernel<T, kMoments>, list,
             options, at<const float>(inputs, 0), options.scaled ? at<const float>(inputs, 1) : nullptr);
    });
  });
}

}  // namespace

Implementations make_sgd_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::SgdUpdate&>(spec.op);
  return for_computed_float(spec, spec.inputs[static_cast<std::size_t>(op.scalars())].dtype,
                            [&]<class T>() { return op.stride() == 3 ? sgd<T, 1>(spec) : sgd<T, 0>(spec); });
}

Implementations make_adam_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::AdamUpdate&>(spec.op);
  const auto scalars = static_cast<std::size_t>(op.scalars());
  return for_computed_float(spec, spec.inputs[scalars].dtype, [&]<class T>() {
    return function_kernel([=, options = op.attributes(), sizes = sizes_of(spec, scalars, 4)](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      const auto add = [&](TensorList<4>& list, std::size_t i) {
        list.add({outputs[3 * i], inputs[scalars + 4 * i + 1], outputs[3 * i + 1], outputs[3 * i + 2]}, sizes[i]);
      };
      for_tensor_lists<4>(sizes.size(), add, [&](const auto& list, std::int64_t) {
        launch(stream, {.grid = static_cast<unsigned>(list.pieces()), .block = kThreads}, adam_kernel<T>, list, options,
               at<const float>(inputs, 0), at<const std::int32_t>(inputs, 1),
               options.scaled ? at<const float>(inputs, 2) : nullptr);
      });
    });
  });
}

}  // namespace braid::cuda
