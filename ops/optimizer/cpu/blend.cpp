#include "ops/optimizer/blend.h"

#include "ops/kernels/cpu/tensor_list.h"
#include "ops/kernels/function_kernel.h"
#include "ops/optimizer/arithmetic.h"

namespace braid::cpu {

Implementations make_blend(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[1].dtype, [&]<class T>() {
    return function_kernel([tensors = TensorList(spec.inputs, 1, 2), width = spec.width](auto inputs, auto outputs) {
      const double* coefficients = at<const double>(inputs, 0);
      const arithmetic::Blend<T> blend{static_cast<T>(coefficients[0]), static_cast<T>(coefficients[1])};
      tensors.for_each_piece(width, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
        const T* x = at<const T>(inputs, 2 + 2 * i);
        T* y = at<T>(outputs, i);  // new versions have the addresses of the old ones
        for_each_element(begin, end, [=](std::int64_t e) { blend(y[e], x[e]); });
      });
    });
  });
}

}  // namespace braid::cpu
