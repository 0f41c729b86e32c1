#include "ops/optimizer/loss_scale.h"

#include <atomic>

#include "ops/kernels/cpu/tensor_list.h"
#include "ops/kernels/function_kernel.h"
#include "ops/optimizer/arithmetic.h"

namespace braid::cpu {

namespace {

template <class T>
BRAID_TARGET_CLONES bool all_finite(const T* x, std::int64_t begin, std::int64_t end) {
  int others = 0;
#pragma omp simd reduction(| : others)
  for (std::int64_t i = begin; i < end; ++i) others |= !arithmetic::is_finite(x[i]);
  return others == 0;
}

}  // namespace

Implementations make_loss_scale_update(const KernelSpec& spec) {
  constexpr std::size_t kStates = ops::LossScaleUpdate::kStates;
  const LossScaleOptions& options = spec.attributes<ops::LossScaleUpdate>();
  const arithmetic::LossScaleStep step{static_cast<float>(options.growth), static_cast<float>(options.backoff),
                                       options.growth_interval};
  return function_kernel([=, gradients = TensorList(spec.inputs, kStates, 1, true),
                          is_f64 = are_f64(spec.inputs.subspan(kStates)),
                          width = spec.width](auto inputs, auto outputs) {
    std::atomic<bool> finite = true;
    gradients.for_each_piece(width, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
      if (is_f64[i] ? all_finite(at<const double>(inputs, kStates + i), begin, end)
                    : all_finite(at<const float>(inputs, kStates + i), begin, end)) {
        return;
      }
      finite.store(false, std::memory_order_relaxed);
    });
    // New versions have the addresses of the old ones.
    *at<double>(outputs, 3) =
        step(finite, *at<float>(outputs, 0), *at<std::int32_t>(outputs, 1), *at<std::int32_t>(outputs, 2));
  });
}

}  // namespace braid::cpu
