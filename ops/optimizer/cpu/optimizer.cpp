#include "ops/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/tensor_list.h"
#include "ops/kernels/function_kernel.h"
#include "ops/optimizer/arithmetic.h"

// Copies of parameters arrive widened, like all low precision (ops/kernels/cpu/low_precision.h).

namespace braid::cpu {

namespace {

/// Calls update(gradient), where gradient(pointer, e) is an element of a gradient, without the scale of the loss; not
/// at all if the step is to be skipped. `factor` is null for gradients that are not scaled.
template <class T, class Update>
void with_gradient(const double* factor, const Update& update) {
  if (factor == nullptr) {
    update([](const T* gradient, std::int64_t e) { return gradient[e]; });
  } else if (*factor != 0) {
    update([f = static_cast<T>(*factor)](const T* gradient, std::int64_t e) { return f * gradient[e]; });
  }
}

}  // namespace

Implementations make_sgd_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::SgdUpdate&>(spec.op);
  const std::size_t scalars = op.scalars(), stride = op.stride();
  return for_float_type(spec, spec.inputs[scalars].dtype, [&]<class T>() {
    return function_kernel([parameters = TensorList(spec.inputs, scalars, stride), options = op.attributes(), scalars,
                            stride, width = spec.width](auto inputs, auto outputs) {
      const auto step = arithmetic::SgdStep<T>::make(options, *at<const double>(inputs, 0));
      with_gradient<T>(options.scaled ? at<const double>(inputs, 1) : nullptr, [&](auto of) {
        parameters.for_each_piece(width, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
          const T* gradient = at<const T>(inputs, scalars + i * stride + 1);
          T* p = at<T>(outputs, i * (stride - 1));  // new versions have the addresses of the old ones
          if (options.momentum == 0) {
            for_each_element(begin, end, [=](std::int64_t e) { step(p[e], of(gradient, e)); });
          } else {
            T* m = at<T>(outputs, i * (stride - 1) + 1);
            for_each_element(begin, end, [=](std::int64_t e) { step(p[e], of(gradient, e), m[e]); });
          }
          if (options.rounded) std::copy(p + begin, p + end, at<T>(outputs, (i + 1) * (stride - 1) - 1) + begin);
        });
      });
    });
  });
}

Implementations make_adam_update(const KernelSpec& spec) {
  const auto& op = static_cast<const ops::AdamUpdate&>(spec.op);
  const std::size_t scalars = op.scalars(), stride = op.stride();
  return for_float_type(spec, spec.inputs[scalars].dtype, [&]<class T>() {
    return function_kernel([parameters = TensorList(spec.inputs, scalars, stride), options = op.attributes(), scalars,
                            stride, width = spec.width](auto inputs, auto outputs) {
      const auto step =
          arithmetic::AdamStep<T>::make(options, *at<const double>(inputs, 0), *at<const std::int32_t>(inputs, 1));
      with_gradient<T>(options.scaled ? at<const double>(inputs, 2) : nullptr, [&](auto of) {
        parameters.for_each_piece(width, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
          const T* gradient = at<const T>(inputs, scalars + i * stride + 1);
          const std::size_t first = i * (stride - 1);
          T *p = at<T>(outputs, first), *m = at<T>(outputs, first + 1), *v = at<T>(outputs, first + 2);
          for_each_element(begin, end, [=](std::int64_t e) {
            step(p[e], of(gradient, e), m[e], v[e], [](T x) { return std::sqrt(x); });
          });
          if (options.rounded) std::copy(p + begin, p + end, at<T>(outputs, first + 3) + begin);
        });
      });
    });
  });
}

}  // namespace braid::cpu
