#include "ops/common/arithmetic.h"
#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/elementwise/cuda/terms.cuh"
#include "ops/elementwise/elementwise.h"

namespace braid::cuda {

namespace {

/// y = f(x).
template <class T, class F>
struct Unary {
  const T* x;
  T* y;
  F f;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(x + first);
    for_lanes<kWidth>([&](int i) { lanes[i] = f(lanes[i]); });
    store<kWidth>(y + first, lanes);
  }
};

/// dx from dy and the output y.
template <class T>
struct Activated {
  const T* dy;
  const T* y;
  T* dx;
  ActivationGradient gradient;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(dy + first);
    const auto output = load<kWidth>(y + first);
    for_lanes<kWidth>([&](int i) { lanes[i] = gradient(lanes[i], output[i]); });
    store<kWidth>(dx + first, lanes);
  }
};

/// y = factor·x, the factor being on the device.
template <class T>
struct ScaleBy {
  const T* x;
  const Compute<T>* factor;
  T* y;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(x + first);
    const arithmetic::Scale<Compute<T>> scale{*factor};
    for_lanes<kWidth>([&](int i) { lanes[i] = scale(lanes[i]); });
    store<kWidth>(y + first, lanes);
  }
};

/// Arithmetic types convert directly to each other, the storage types through f32.
template <class From, class To>
struct Convert {
  const From* x;
  To* y;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    const auto packed = load_packed<kWidth>(x + first);
    Lanes<Compute<To>, kWidth> converted;
    for_lanes<kWidth>([&](int i) {
      if constexpr (std::is_arithmetic_v<From>) {
        converted[i] = static_cast<Compute<To>>(packed.at[i]);
      } else {
        converted[i] = static_cast<Compute<To>>(widen(packed.at[i]));
      }
    });
    store<kWidth>(y + first, converted);
  }
};

template <class T>
struct Constant {
  Compute<T> value;
  T* y;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    Lanes<Compute<T>, kWidth> lanes;
    for_lanes<kWidth>([&](int i) { lanes[i] = value; });
    store<kWidth>(y + first, lanes);
  }
};

template <class T>
struct Sum {
  TermTable<T> terms;
  T* y;

  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    terms.template add<kWidth>(first, y, [&](int i) { return load<kWidth>(terms.x[i] + first); });
  }
};

template <class T, class F>
std::unique_ptr<Kernel> unary(const KernelSpec& spec, const F& f) {
  return function_kernel([f, size = spec.inputs[0].shape.size(), units = spec.info->capacity](
                             const StreamHandles& stream, auto inputs, auto outputs) {
    constexpr int kWidth = kVectorWidth<T>;
    const Unary<T, F> body{at<const T>(inputs, 0), at<T>(outputs, 0), f};
    for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.x, body.y), body);
  });
}

Implementations activate(const KernelSpec& spec, Activation activation) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return unary<T>(spec, range_of(activation)); });
}

Implementations activate_backward(const KernelSpec& spec, Activation activation) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([gradient = gradient_of(activation), size = spec.inputs[0].shape.size(),
                            units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const Activated<T> body{at<const T>(inputs, 0), at<const T>(inputs, 1), at<T>(outputs, 0), gradient};
      for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.dy, body.y, body.dx), body);
    });
  });
}

}  // namespace

Implementations make_relu(const KernelSpec& spec) { return activate(spec, Activation::relu); }
Implementations make_relu_backward(const KernelSpec& spec) { return activate_backward(spec, Activation::relu); }
Implementations make_relu6(const KernelSpec& spec) { return activate(spec, Activation::relu6); }
Implementations make_relu6_backward(const KernelSpec& spec) { return activate_backward(spec, Activation::relu6); }

Implementations make_scale(const KernelSpec& spec) {
  const double factor = spec.attributes<ops::Scale>().factor;
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    return unary<T>(spec, arithmetic::Scale<Compute<T>>{static_cast<Compute<T>>(factor)});
  });
}

Implementations make_scale_by(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    return function_kernel([size = spec.inputs[0].shape.size(), units = spec.info->capacity](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const ScaleBy<T> body{at<const T>(inputs, 0), at<const Compute<T>>(inputs, 1), at<T>(outputs, 0)};
      for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.x, body.y), body);
    });
  });
}

Implementations make_sum(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    const std::int64_t size = spec.inputs[0].shape.size();
    return function_kernel(
        TermTable<T>::workspace_bytes(spec.inputs.size(), size),
        [size, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
          constexpr int kWidth = kVectorWidth<T>;
          T* const y = at<T>(outputs, 0);
          for_term_tables<T>(inputs, workspace, [&](const TermTable<T>& terms, std::size_t) {
            const bool aligned = terms.template is_aligned<kWidth>() && is_aligned<kWidth>(y);
            for_each_element<kWidth>(stream, units, size, aligned, Sum<T>{terms, y});
          });
        });
  });
}

Implementations make_cast(const KernelSpec& spec) {
  return for_any_type(spec.inputs[0].dtype, [&]<class From>() {
    return for_any_float(spec.outputs[0].dtype, [&]<class To>() {
      return function_kernel([size = spec.inputs[0].shape.size(), units = spec.info->capacity](
                                 const StreamHandles& stream, auto inputs, auto outputs) {
        constexpr int kWidth = std::min(kVectorWidth<From>, kVectorWidth<To>);
        const Convert<From, To> body{at<const From>(inputs, 0), at<To>(outputs, 0)};
        for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.x, body.y), body);
      });
    });
  });
}

Implementations make_fill(const KernelSpec& spec) {
  const double value = spec.attributes<ops::Fill>().value;
  return for_any_float(spec.outputs[0].dtype, [&]<class T>() {
    return function_kernel([value, size = spec.outputs[0].shape.size(), units = spec.info->capacity](
                               const StreamHandles& stream, auto, auto outputs) {
      constexpr int kWidth = kVectorWidth<T>;
      const Constant<T> body{static_cast<Compute<T>>(value), at<T>(outputs, 0)};
      for_each_element<kWidth>(stream, units, size, is_aligned<kWidth>(body.y), body);
    });
  });
}

}  // namespace braid::cuda
