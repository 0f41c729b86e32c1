#include "ops/elementwise/elementwise.h"

#include "ops/common/arithmetic.h"
#include "ops/common/floating.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

/// y = f(x).
template <class T, class F>
std::unique_ptr<Kernel> unary(const KernelSpec& spec, const F& f) {
  return function_kernel([f, size = spec.inputs[0].shape.size(), width = spec.width](auto inputs, auto outputs) {
    const T* x = at<const T>(inputs, 0);
    T* y = at<T>(outputs, 0);
    parallel_for_each_element(width, size, [=](std::int64_t i) { y[i] = f(x[i]); });
  });
}

Implementations activate(const KernelSpec& spec, Activation activation) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() { return unary<T>(spec, range_of(activation)); });
}

/// dx from dy and the output y.
Implementations activate_backward(const KernelSpec& spec, Activation activation) {
  return float_kernel(spec, [gradient = gradient_of(activation), size = spec.inputs[0].shape.size(),
                             width = spec.width]<class T>(auto inputs, auto outputs) {
    const T *dy = at<const T>(inputs, 0), *y = at<const T>(inputs, 1);
    T* dx = at<T>(outputs, 0);
    parallel_for_each_element(width, size, [=](std::int64_t i) { dx[i] = gradient(dy[i], y[i]); });
  });
}

/// Inputs of a sum may lie on its output, and one value may be several of them, so each block of the output is written
/// only once the whole block of the sum is known.
template <class T>
void sum_block(std::span<void* const> inputs, std::int64_t begin, std::int64_t end, T* y) {
  constexpr std::int64_t kBlock = 1024;
  T sum[kBlock];
  for (; begin < end; begin += kBlock) {
    const std::int64_t size = std::min(kBlock, end - begin);
    std::copy_n(at<const T>(inputs, 0) + begin, size, sum);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      const T* x = at<const T>(inputs, i) + begin;
      for_each_element(0, size, [x, out = sum](std::int64_t e) { out[e] += x[e]; });
    }
    std::copy_n(sum, size, y + begin);
  }
}

/// Arithmetic types convert directly to each other, the storage types through f32.
template <class To, class From>
To convert(From x) {
  if constexpr (std::is_arithmetic_v<To> && std::is_arithmetic_v<From>) {
    return static_cast<To>(x);
  } else {
    return static_cast<To>(static_cast<float>(x));
  }
}

}  // namespace

Implementations make_relu(const KernelSpec& spec) { return activate(spec, Activation::relu); }
Implementations make_relu_backward(const KernelSpec& spec) { return activate_backward(spec, Activation::relu); }
Implementations make_relu6(const KernelSpec& spec) { return activate(spec, Activation::relu6); }
Implementations make_relu6_backward(const KernelSpec& spec) { return activate_backward(spec, Activation::relu6); }

Implementations make_scale(const KernelSpec& spec) {
  const double factor = spec.attributes<ops::Scale>().factor;
  return for_float_type(spec, spec.inputs[0].dtype,
                        [&]<class T>() { return unary<T>(spec, arithmetic::Scale<T>{static_cast<T>(factor)}); });
}

Implementations make_scale_by(const KernelSpec& spec) {
  return float_kernel(spec,
                      [size = spec.inputs[0].shape.size(), width = spec.width]<class T>(auto inputs, auto outputs) {
                        const T* x = at<const T>(inputs, 0);
                        T* y = at<T>(outputs, 0);
                        const arithmetic::Scale<T> scale{*at<const T>(inputs, 1)};
                        parallel_for_each_element(width, size, [=](std::int64_t i) { y[i] = scale(x[i]); });
                      });
}

Implementations make_sum(const KernelSpec& spec) {
  return float_kernel(
      spec, [size = spec.inputs[0].shape.size(), width = spec.width]<class T>(auto inputs, auto outputs) {
        T* y = at<T>(outputs, 0);
        const auto x = [&](std::size_t i) { return at<const T>(inputs, i); };
        // Sums of a few branches are common enough for separate loops; they too read an element before writing it.
        if (inputs.size() == 2) {
          parallel_for_each_element(width, size, [=, a = x(0), b = x(1)](std::int64_t i) { y[i] = a[i] + b[i]; });
        } else if (inputs.size() == 3) {
          parallel_for_each_element(width, size,
                                    [=, a = x(0), b = x(1), c = x(2)](std::int64_t i) { y[i] = a[i] + b[i] + c[i]; });
        } else if (inputs.size() == 4) {
          parallel_for_each_element(width, size, [=, a = x(0), b = x(1), c = x(2), d = x(3)](std::int64_t i) {
            y[i] = a[i] + b[i] + c[i] + d[i];
          });
        } else {
          parallel_for(width, size, kElementGrain,
                       [&](std::int64_t begin, std::int64_t end) { sum_block<T>(inputs, begin, end, y); });
        }
      });
}

Implementations make_cast(const KernelSpec& spec) {
  return for_any_type(spec.inputs[0].dtype, [&]<class From>() {
    return for_any_float(spec.outputs[0].dtype, [&]<class To>() {
      return function_kernel([size = spec.inputs[0].shape.size(), width = spec.width](auto inputs, auto outputs) {
        const From* x = at<const From>(inputs, 0);
        To* y = at<To>(outputs, 0);
        parallel_for_each_element(width, size, [=](std::int64_t i) { y[i] = convert<To>(x[i]); });
      });
    });
  });
}

Implementations make_fill(const KernelSpec& spec) {
  const double value = spec.attributes<ops::Fill>().value;
  return for_any_float(spec.outputs[0].dtype, [&]<class T>() {
    return function_kernel([value, size = spec.outputs[0].shape.size(), width = spec.width](auto, auto outputs) {
      T* y = at<T>(outputs, 0);
      const T element = convert<T>(value);
      parallel_for_each_element(width, size, [=](std::int64_t i) { y[i] = element; });
    });
  });
}

}  // namespace braid::cpu
