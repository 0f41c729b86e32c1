#include "ops/matmul/linear.h"

#include "ops/kernels/cpu/channel_rows.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/few_samples.h"
#include "ops/matmul/cpu/multiply_add.h"

namespace braid::cpu {

namespace {

/// a·b, the inputs of these numbers, plus input 2, if there is one, as the bias: by the first fast kernel
/// that fits, else by plain loops.
Implementations product(const KernelSpec& spec,
                        std::initializer_list<std::unique_ptr<Kernel> (*)(const KernelSpec&)> fast, std::size_t first,
                        std::size_t second, const MatmulOptions& options) {
  if (auto kernel = fast_kernel(spec, fast)) return kernel;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const bool ta = options.transpose_a, tb = options.transpose_b;
    const ops::MatmulExtents e(options, spec.inputs[first].shape, spec.inputs[second].shape);
    const std::size_t bytes = tb ? static_cast<std::size_t>(spec.inputs[second].shape.size()) * sizeof(T) : 0;
    return function_kernel(bytes, [=, width = spec.width](auto inputs, auto outputs, void* workspace) {
      const T *a = at<const T>(inputs, first), *b = at<const T>(inputs, second);
      const T* bias = inputs.size() == 3 ? at<const T>(inputs, 2) : nullptr;
      T *y = at<T>(outputs, 0), *transposed = static_cast<T*>(workspace);
      for (std::int64_t i = 0; tb && i < (e.b_step == 0 ? 1 : e.batches); ++i) {
        transpose(width, e.n, e.k, b + i * e.b_step, transposed + i * e.b_step);
      }
      const T* rows = tb ? transposed : b;
      parallel_for(width, e.batches * e.m, 1, [=](std::int64_t i, std::int64_t) {
        const std::int64_t batch = i / e.m, row = i % e.m;
        start_from(bias, e.n, y + i * e.n);
        multiply_add(e.n, e.k, a + batch * e.a_step + row * (ta ? 1 : e.k), ta ? e.m : 1, rows + batch * e.b_step, e.n,
                     y + i * e.n);
      });
    });
  });
}

}  // namespace

Implementations make_matmul(const KernelSpec& spec) {
  return product(spec, {onednn::matmul}, 0, 1, spec.attributes<ops::Matmul>());
}

Implementations make_linear(const KernelSpec& spec) {
  return product(spec, {few_samples::linear, onednn::linear}, 0, 1, {.transpose_b = true});
}

Implementations make_linear_backward_data(const KernelSpec& spec) {
  return product(spec, {few_samples::linear_backward_data, onednn::linear_backward_data}, 0, 1, {});
}

Implementations make_linear_backward_filter(const KernelSpec& spec) {
  return product(spec, {few_samples::linear_backward_filter, onednn::linear_backward_filter}, 1, 0,
                 {.transpose_a = true});
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
