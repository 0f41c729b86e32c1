#include "ops/matmul/linear.h"

#include "ops/kernels/cpu/channel_rows.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/multiply_add.h"

namespace braid::cpu {

Implementations make_matmul(const KernelSpec& spec) {
  if (auto kernel = fast_kernel(spec, {onednn::matmul})) return kernel;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const MatmulOptions& options = spec.attributes<ops::Matmul>();
    const bool ta = options.transpose_a, tb = options.transpose_b;
    const ops::MatmulExtents e(spec.attributes<ops::Matmul>(), spec.inputs[0].shape, spec.inputs[1].shape);
    const std::size_t bytes = tb ? static_cast<std::size_t>(spec.inputs[1].shape.size()) * sizeof(T) : 0;
    return function_kernel(bytes, [=, width = spec.width](auto inputs, auto outputs, void* workspace) {
      const T *a = at<const T>(inputs, 0), *b = at<const T>(inputs, 1);
      T *y = at<T>(outputs, 0), *transposed = static_cast<T*>(workspace);
      for (std::int64_t i = 0; tb && i < (e.b_step == 0 ? 1 : e.batches); ++i) {
        transpose(width, e.n, e.k, b + i * e.b_step, transposed + i * e.b_step);
      }
      const T* rows = tb ? transposed : b;
      parallel_for(width, e.batches * e.m, 1, [=](std::int64_t i, std::int64_t) {
        const std::int64_t batch = i / e.m, row = i % e.m;
        std::fill_n(y + i * e.n, e.n, T(0));
        multiply_add(e.n, e.k, a + batch * e.a_step + row * (ta ? 1 : e.k), ta ? e.m : 1, rows + batch * e.b_step, e.n,
                     y + i * e.n);
      });
    });
  });
}

Implementations make_linear(const KernelSpec& spec) {
  if (auto kernel = fast_kernel(spec, {onednn::linear})) return kernel;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const std::int64_t n = spec.inputs[0].shape[0], c = spec.inputs[0].shape[1], k = spec.inputs[1].shape[0];
    const std::size_t bytes = static_cast<std::size_t>(k * c) * sizeof(T);
    return function_kernel(bytes, [=, width = spec.width](auto inputs, auto outputs, void* workspace) {
      const T *x = at<const T>(inputs, 0), *bias = inputs.size() == 3 ? at<const T>(inputs, 2) : nullptr;
      T *y = at<T>(outputs, 0), *transposed = static_cast<T*>(workspace);
      transpose(width, k, c, at<const T>(inputs, 1), transposed);
      parallel_for(width, n, 1, [=](std::int64_t i, std::int64_t) {
        start_from(bias, k, y + i * k);
        multiply_add(k, c, x + i * c, 1, transposed, k, y + i * k);
      });
    });
  });
}

Implementations make_linear_backward_data(const KernelSpec& spec) {
  if (auto kernel = fast_kernel(spec, {onednn::linear_backward_data})) return kernel;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const std::int64_t n = spec.inputs[0].shape[0], k = spec.inputs[0].shape[1], c = spec.inputs[1].shape[1];
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T *dy = at<const T>(inputs, 0), *w = at<const T>(inputs, 1);
      T* dx = at<T>(outputs, 0);
      parallel_for(width, n, 1, [=](std::int64_t i, std::int64_t) {
        std::fill_n(dx + i * c, c, T(0));
        multiply_add(c, k, dy + i * k, 1, w, c, dx + i * c);
      });
    });
  });
}

Implementations make_linear_backward_filter(const KernelSpec& spec) {
  if (auto kernel = fast_kernel(spec, {onednn::linear_backward_filter})) return kernel;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const std::int64_t n = spec.inputs[0].shape[0], c = spec.inputs[0].shape[1], k = spec.inputs[1].shape[1];
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const T *x = at<const T>(inputs, 0), *dy = at<const T>(inputs, 1);
      T* dw = at<T>(outputs, 0);
      parallel_for(width, k, 1, [=](std::int64_t i, std::int64_t) {
        std::fill_n(dw + i * c, c, T(0));
        multiply_add(c, n, dy + i, k, x, c, dw + i * c);
      });
    });
  });
}

Implementations make_channel_sum(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const ChannelRows rows(spec.inputs[0].shape);
    return function_kernel(sum_channels_bytes<1, T>(rows), [=, threads = spec.width](auto inputs, auto outputs,
                                                                                     void* workspace) {
      const auto terms = [x = at<const T>(inputs, 0)](std::int64_t e, std::int64_t) { return Addends<T>{x[e], T(0)}; };
      const double* sums = sum_channels<1, T>(threads, rows, terms, workspace);
      std::transform(sums, sums + rows.channels, at<T>(outputs, 0), [](double sum) { return static_cast<T>(sum); });
    });
  });
}

}  // namespace braid::cpu
