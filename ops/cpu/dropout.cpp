#include "ops/dropout.h"

#include "ops/arithmetic.h"
#include "ops/cpu/cpu_kernel.h"
#include "ops/cpu/loops.h"

namespace braid::cpu {

std::unique_ptr<Kernel> make_dropout(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto& op = static_cast<const ops::Dropout&>(spec.op);
    const arithmetic::DropoutScale<T> scale{static_cast<float>(op.p())};
    return function_kernel([=, seed = op.seed(), layer = op.layer(), size = spec.inputs[0].shape.size(),
                            width = spec.width](auto inputs, auto outputs) {
      const T* x = at<const T>(inputs, 0);
      const std::int32_t step = *at<const std::int32_t>(inputs, 1);
      T* y = at<T>(outputs, 0);
      static_assert(kElementGrain % 4 == 0, "a piece holds whole quads");
      parallel_for(width, size, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
        for (; begin < end; begin += 4) {
          const PhiloxBlock draws = ops::dropout_draws(seed, layer, step, static_cast<std::uint64_t>(begin / 4));
          for (std::int64_t i = begin; i < std::min(begin + 4, end); ++i) y[i] = x[i] * scale(draws.x[i - begin]);
        }
      });
    });
  });
}

}  // namespace braid::cpu
