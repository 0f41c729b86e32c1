#include "ops/elementwise/random.h"

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

Implementations make_random(const KernelSpec& spec) {
  return for_float_type(spec, spec.outputs[0].dtype, [&]<class T>() {
    return function_kernel([attributes = spec.attributes<ops::Random>(), size = spec.outputs[0].shape.size(),
                            width = spec.width](auto inputs, auto outputs) {
      const std::int32_t step = *at<const std::int32_t>(inputs, 0);
      T* y = at<T>(outputs, 0);
      constexpr std::int64_t kGrain = kElementGrain / 16;  // a quad costs as much as many moved elements
      parallel_for(width, divide_up(size, 4), kGrain, [=, &attributes](std::int64_t begin, std::int64_t end) {
        for (std::int64_t quad = begin; quad < end; ++quad) {
          const ops::RandomQuad<T> numbers(attributes, step, quad);
          std::copy_n(numbers.at, std::min<std::int64_t>(4, size - 4 * quad), y + 4 * quad);
        }
      });
    });
  });
}

}  // namespace braid::cpu
