// Direct convolutions. Activations stay NHWC, on which oneDNN is as fast as on its blocked layouts. Filters are stored
// KRSC; oneDNN chooses the layout it computes with, and copies to and from it take a few percent of the time.

#include <limits>

#include "ops/conv2d.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/onednn_kernel.h"

namespace braid::cpu::onednn {

namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

/// A convolution in oneDNN's terms: dimensions are named in the order NCHW and (G)OIHW whatever the layout.
struct Problem {
  memory::dims x, w, y, w_strides;
  memory::dims stride, dilation, padding;

  Problem(const Conv2dOptions& options, const Shape& image, const Shape& filter, const Shape& result)
      : x{image[0], image[3], image[1], image[2]},
        y{result[0], result[3], result[1], result[2]},
        stride{options.stride.h, options.stride.w},
        dilation{options.dilation.h - 1, options.dilation.w - 1},  // oneDNN counts the zeros in between
        padding{options.padding.h, options.padding.w} {
    const std::int64_t k = filter[0], r = filter[1], s = filter[2], c = filter[3];
    if (options.groups == 1) {
      w = {k, c, r, s};
      w_strides = {r * s * c, 1, s * c, c};
    } else {
      w = {options.groups, k / options.groups, c, r, s};
      w_strides = {k / options.groups * r * s * c, r * s * c, 1, s * c, c};
    }
  }

  static memory::desc nhwc(const memory::dims& dims) {
    return {dims, memory::data_type::f32, memory::format_tag::nhwc};
  }
  memory::desc krsc() const { return {w, memory::data_type::f32, w_strides}; }
  memory::desc any_filter() const { return {w, memory::data_type::f32, memory::format_tag::any}; }

  memory::desc bias() const { return {{y[1]}, memory::data_type::f32, memory::format_tag::x}; }

  auto forward_with_bias(const dnnl::primitive_attr& attributes) const {
    return describe<dnnl::convolution_forward>(attributes, prop_kind::forward_training, algorithm::convolution_direct,
                                               nhwc(x), any_filter(), bias(), nhwc(y), stride, dilation, padding,
                                               padding);
  }
  /// Backward primitives ask for the description of the forward one that they belong to.
  auto forward(const dnnl::primitive_attr& attributes = user_scratchpad()) const {
    return describe<dnnl::convolution_forward>(attributes, prop_kind::forward_training, algorithm::convolution_direct,
                                               nhwc(x), any_filter(), nhwc(y), stride, dilation, padding, padding);
  }
  auto backward_data() const {
    return describe_backward<dnnl::convolution_backward_data>(
        forward(), algorithm::convolution_direct, nhwc(x), any_filter(), nhwc(y), stride, dilation, padding, padding);
  }
  auto backward_filter() const {
    return describe_backward<dnnl::convolution_backward_weights>(
        forward(), algorithm::convolution_direct, nhwc(x), any_filter(), nhwc(y), stride, dilation, padding, padding);
  }
};

/// oneDNN's own ReLU, max(x, 0), turns a NaN into 0, because it takes the second of two operands if one is a NaN. This
/// is −min(max(−x, −∞), 0), which turns it into ∞, so that it is not lost.
dnnl::post_ops relu() {
  dnnl::post_ops steps;
  append(steps, algorithm::eltwise_linear, -1, 0);
  append(steps, algorithm::eltwise_clip, -std::numeric_limits<float>::infinity(), 0);
  append(steps, algorithm::eltwise_linear, -1, 0);
  return steps;
}

}  // namespace

std::unique_ptr<Kernel> conv2d(const KernelSpec& spec) {
  const bool has_bias = spec.inputs.size() == 3;
  const auto& op = dynamic_cast<const ops::Conv2d&>(spec.op);
  const Problem problem(op.options(), spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape);
  dnnl::primitive_attr attributes = user_scratchpad();
  if (op.options().activation == Activation::relu) attributes.set_post_ops(relu());
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    const auto description = has_bias ? problem.forward_with_bias(attributes) : problem.forward(attributes);
    const memory x = kernel.input(0, problem.nhwc(problem.x));
    const memory w = kernel.reordered(kernel.input(1, problem.krsc()), description.weights_desc());
    const memory y = kernel.output(0, problem.nhwc(problem.y));
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}};
    if (has_bias) arguments.insert({DNNL_ARG_BIAS, kernel.input(2, problem.bias())});
    kernel.add<dnnl::convolution_forward>(description, std::move(arguments));
  });
}

std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec) {
  const auto& op = dynamic_cast<const ops::Conv2dBackwardData&>(spec.op);
  const Problem problem(op.options(), spec.outputs[0].shape, spec.inputs[1].shape, spec.inputs[0].shape);
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    const auto description = problem.backward_data();
    const memory dy = kernel.input(0, problem.nhwc(problem.y));
    const memory w = kernel.reordered(kernel.input(1, problem.krsc()), description.weights_desc());
    const memory dx = kernel.output(0, problem.nhwc(problem.x));
    kernel.add<dnnl::convolution_backward_data>(
        description, {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx}});
  });
}

std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec) {
  const auto& op = dynamic_cast<const ops::Conv2dBackwardFilter&>(spec.op);
  const Problem problem(op.options(), spec.inputs[0].shape, spec.outputs[0].shape, spec.inputs[1].shape);
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    const auto description = problem.backward_filter();
    const memory x = kernel.input(0, problem.nhwc(problem.x));
    const memory dy = kernel.input(1, problem.nhwc(problem.y));
    const memory dw = kernel.output(0, problem.krsc());
    const bool same = description.diff_weights_desc() == dw.get_desc();
    const memory computed = same ? dw : kernel.scratch(description.diff_weights_desc());
    kernel.add<dnnl::convolution_backward_weights>(
        description, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_WEIGHTS, computed}});
    if (!same) kernel.add_reorder(computed, dw);
  });
}

}  // namespace braid::cpu::onednn
