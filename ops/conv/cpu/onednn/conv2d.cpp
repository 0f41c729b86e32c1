// Direct convolutions. Activations stay NHWC, on which oneDNN is as fast as on its blocked layouts. Filters are stored
// KRSC; oneDNN chooses the layout it computes with, and copies to and from it take a few percent of the time.
//
// A large convolution is cut by images, or by rows if there are too few of them. The gradient of a filter is a sum over
// what it is cut into; where the sum would take too long, the filters are divided instead.

#include "ops/conv/conv2d.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>

#include "ops/kernels/cpu/onednn/kernel.h"
#include "ops/kernels/cpu/onednn/onednn.h"

namespace braid::cpu::onednn {

namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;

constexpr std::int64_t kLeastOuter = 64;    ///< pixels of the result in a piece: fewer do not repay reading the filter
constexpr std::int64_t kLeastFilters = 64;  ///< filters in a piece
constexpr std::int64_t kFilterBlock = 16;   ///< pieces of the filters end at multiples of this

memory::desc nhwc(const memory::dims& dims) { return {dims, memory::data_type::f32, memory::format_tag::nhwc}; }

/// A convolution in oneDNN's terms: dimensions are named in the order NCHW and (G)OIHW whatever the layout.
struct Problem {
  memory::dims x, w, y, w_strides;
  memory::dims stride, dilation, padding, padding_end;

  Problem(const Conv2dOptions& options, const Shape& image, const Shape& filter, const Shape& result)
      : x{image[0], image[3], image[1], image[2]},
        y{result[0], result[3], result[1], result[2]},
        stride{options.stride.h, options.stride.w},
        dilation{options.dilation.h - 1, options.dilation.w - 1},  // oneDNN counts the zeros in between
        padding{options.padding.h, options.padding.w},
        padding_end(padding) {
    const std::int64_t k = filter[0], r = filter[1], s = filter[2], c = filter[3];
    if (options.groups == 1) {
      w = {k, c, r, s};
      w_strides = {r * s * c, 1, s * c, c};
    } else {
      w = {options.groups, k / options.groups, c, r, s};
      w_strides = {k / options.groups * r * s * c, r * s * c, 1, s * c, c};
    }
  }

  bool grouped() const { return w.size() == 5; }
  std::int64_t outer() const { return y[0] * y[2] * y[3]; }
  std::int64_t filter_size() const { return y[1] * w_strides[grouped() ? 1 : 0]; }
  std::int64_t pieces(std::int64_t most) const { return pieces_of(outer(), filter_size(), most); }
  std::int64_t reach() const { return (w[w.size() - 2] - 1) * (dilation[0] + 1); }  ///< rows below the first one seen

  memory::desc krsc() const { return {w, memory::data_type::f32, w_strides}; }
  memory::desc any_filter() const { return {w, memory::data_type::f32, memory::format_tag::any}; }
  memory::desc bias() const { return {{y[1]}, memory::data_type::f32, memory::format_tag::x}; }

  /// Backward primitives need the description of their forward primitive. `bias` is bias(), or nothing.
  template <class... Bias>
  auto forward(const memory::desc& filter, const dnnl::primitive_attr& attributes, const Bias&... bias) const {
    return describe<dnnl::convolution_forward>(attributes, prop_kind::forward_training, algorithm::convolution_direct,
                                               nhwc(x), filter, bias..., nhwc(y), stride, dilation, padding,
                                               padding_end);
  }
  template <class Primitive>
  auto backward(const memory::desc& filter) const {
    return describe_backward<Primitive>(forward(filter, user_scratchpad()), algorithm::convolution_direct, nhwc(x),
                                        filter, nhwc(y), stride, dilation, padding, padding_end);
  }
  auto backward_data(const memory::desc& filter) const { return backward<dnnl::convolution_backward_data>(filter); }
  auto backward_filter(const memory::desc& filter) const {
    return backward<dnnl::convolution_backward_weights>(filter);
  }
};

/// Some of the images, or some rows of one, as a separate convolution, and where its tensors begin.
struct Slice {
  Problem problem;
  std::int64_t x_begin, y_begin;

  /// The key that slices with equal primitives share.
  std::array<std::int64_t, 5> key() const {
    return {problem.x[0], problem.x[2], problem.y[2], problem.padding[0], problem.padding_end[0]};
  }
};

/// Rows [x.begin, …) and [y.begin, …) of images [images.begin, …).
Slice slice(const Problem& whole, Part images, Part x, Part y) {
  Slice slice{whole, (images.begin * whole.x[2] + x.begin) * whole.x[3] * whole.x[1],
              (images.begin * whole.y[2] + y.begin) * whole.y[3] * whole.y[1]};
  Problem& part = slice.problem;
  part.x[0] = part.y[0] = images.size;
  part.x[2] = x.size;
  part.y[2] = y.size;
  part.padding[0] = whole.padding[0] + x.begin - y.begin * whole.stride[0];
  // The end of the last window. Rows beyond it, which a stride may leave over, are unused.
  part.padding_end[0] =
      std::max<std::int64_t>(0, (y.size - 1) * whole.stride[0] + whole.reach() + 1 - part.padding[0] - x.size);
  return slice;
}

/// The rows of the image that these rows of the result see.
Part rows_seen(const Problem& whole, Part y) {
  const std::int64_t first = y.begin * whole.stride[0] - whole.padding[0];
  const std::int64_t last = first + (y.size - 1) * whole.stride[0] + whole.reach();
  const std::int64_t begin = std::max<std::int64_t>(0, first);
  return {begin, std::min(whole.x[2] - 1, last) + 1 - begin};
}

/// The rows of the result that see these rows of the image, which begin where a window may begin.
Part rows_seeing(const Problem& whole, Part x) {
  const std::int64_t s = whole.stride[0], first = x.begin + whole.padding[0], last = first + x.size - 1;
  const std::int64_t begin = std::max<std::int64_t>(0, first / s - whole.reach() / s);
  return {begin, std::min(whole.y[2] - 1, last / s) + 1 - begin};
}

/// Cuts a convolution into about as many slices as asked for. Rows are those of the result, or of the image, whose
/// gradient is then complete in each slice.
enum class Rows { of_result, of_image };
std::vector<Slice> cut(const Problem& whole, std::int64_t pieces, Rows rows) {
  const Part all_x{0, whole.x[2]}, all_y{0, whole.y[2]};
  std::vector<Slice> slices;
  if (const std::int64_t images = whole.x[0]; pieces > images) {
    const bool of_result = rows == Rows::of_result;
    const std::int64_t size = whole.y[2], blocks = std::min(size, divide_up(pieces, images));
    for (std::int64_t image = 0; image < images; ++image) {
      for (std::int64_t i = 0; i < blocks; ++i) {
        Part x, y = part_of(size, 1, blocks, i);
        if (of_result) {
          x = rows_seen(whole, y);
        } else {
          const auto row = [&](std::int64_t window) {
            return std::clamp<std::int64_t>(window * whole.stride[0] - whole.padding[0], 0, whole.x[2]);
          };
          const std::int64_t begin = i == 0 ? 0 : row(y.begin),
                             end = i == blocks - 1 ? whole.x[2] : row(y.begin + y.size);
          x = {begin, end - begin};
          if (x.size > 0) y = rows_seeing(whole, x);
        }
        if (x.size <= 0 || y.size <= 0) return cut(whole, images, rows);  // rows that are all padding
        slices.push_back(slice(whole, {image, 1}, x, y));
      }
    }
    return slices;
  }
  for (std::int64_t i = 0; i < pieces; ++i)
    slices.push_back(slice(whole, part_of(whole.x[0], 1, pieces, i), all_x, all_y));
  return slices;
}

/// oneDNN's own ReLU, max(x, 0), turns a NaN into 0, because it takes the second of two operands if one is a NaN. This
/// is −min(max(−x, −most), 0), which turns a NaN into `most`, ∞ for ReLU, so that it is not lost.
dnnl::post_ops within(ActivationRange range) {
  dnnl::post_ops steps;
  append(steps, algorithm::eltwise_linear, -1, 0);
  append(steps, algorithm::eltwise_clip, -range.most, -range.least);
  append(steps, algorithm::eltwise_linear, -1, 0);
  return steps;
}

/// Copies the filter to another layout, a part of the filters per task if it is large and the layout can be cut there.
void copy_filter(PrimitiveKernel& kernel, const Problem& problem, const memory& from, const memory& to) {
  constexpr std::int64_t kLarge = 1 << 18, kMostPieces = 64;  // oneDNN generates code for each piece
  const std::int64_t most = problem.grouped() || problem.filter_size() < kLarge ? 1 : kMostPieces;
  const std::int64_t pieces = std::clamp<std::int64_t>(problem.w[0] / kLeastFilters, 1, most);
  std::vector<std::pair<memory, memory>> parts;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Part part = part_of(problem.w[0], kLeastFilters, pieces, i);
    memory::dims dims = problem.w, offset(dims.size());
    dims[0] = part.size;
    offset[0] = part.begin;
    const auto source = kernel.view(from, dims, offset), target = kernel.view(to, dims, offset);
    if (!source.has_value() || !target.has_value()) return kernel.copy(from, to);
    parts.push_back({*source, *target});
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) kernel.begin_task();
    kernel.copy(parts[i].first, parts[i].second);
  }
}

/// Slices, and one layout of the filter for all of them.
struct Cut {
  std::vector<Slice> slices;
  memory::desc layout;
};

/// About as many slices as asked for. oneDNN chooses the layout for a slice, and for slices of another size it may have
/// nothing but its reference code on this layout, a thousand times slower: then another layout, or fewer slices.
/// describe(problem, layout) gives the primitive for a slice; layout_of(primitive), the filter's layout in it.
template <class Describe, class LayoutOf>
Cut cut_for(const Problem& whole, std::int64_t pieces, Rows rows, const Describe& describe, const LayoutOf& layout_of) {
  std::optional<Cut> first;  // taken if nothing is fast
  while (true) {
    Cut result{cut(whole, pieces, rows), {}};
    std::map<std::array<std::int64_t, 5>, const Problem*> sizes;
    for (const Slice& slice : result.slices) sizes.try_emplace(slice.key(), &slice.problem);
    for (const auto& [key, preferring] : sizes) {
      result.layout = layout_of(describe(*preferring, whole.any_filter()));
      const bool fast = std::ranges::none_of(sizes, [&](const auto& size) {
        return std::string_view(describe(*size.second, result.layout).impl_info_str()).starts_with("ref");
      });
      if (fast) return result;
      if (!first) first = result;
    }
    if (result.slices.size() == 1) return *first;
    pieces = std::max<std::int64_t>(1, pieces / 2);
  }
}

/// A step with a task for every slice. The filter is copied to the layout that oneDNN prefers if necessary, and
/// describe(problem, layout) gives the primitive for a slice.
template <class Primitive, class Describe, class Arguments>
void add_slices(PrimitiveKernel& kernel, const Problem& whole, bool constant_filter, Rows rows,
                const Describe& describe, const Arguments& arguments) {
  const auto [slices, layout] = cut_for(whole, whole.pieces(whole.outer() / kLeastOuter), rows, describe,
                                        [](const auto& primitive) { return primitive.weights_desc(); });
  const memory stored = kernel.input(1, whole.krsc());
  memory filter = stored;
  if (layout != stored.get_desc()) {
    filter = constant_filter ? kernel.kept(layout) : kernel.scratch(layout);
    copy_filter(kernel, whole, stored, filter);
    if (constant_filter) kernel.keep_steps();
    kernel.begin_step();
  }
  std::map<std::array<std::int64_t, 5>, std::size_t> compiled;
  for (const Slice& slice : slices) {
    if (&slice != &slices[0]) kernel.begin_task();
    const auto [found, is_new] = compiled.try_emplace(slice.key());
    if (is_new) found->second = kernel.compile<Primitive>(describe(slice.problem, layout));
    kernel.call(found->second, arguments(slice, filter));
  }
}

/// Every slice gives a gradient of the whole filter, and these are added before they are copied to the filter's layout.
void sum_slices(PrimitiveKernel& kernel, const Problem& whole, std::int64_t pieces) {
  const auto [slices, layout] = cut_for(
      whole, pieces, Rows::of_result,
      [](const Problem& problem, const memory::desc& filter) { return problem.backward_filter(filter); },
      [](const auto& primitive) { return primitive.diff_weights_desc(); });
  const memory dw = kernel.output(0, whole.krsc());
  const memory total = layout == dw.get_desc() ? dw : kernel.scratch(layout);
  std::map<std::array<std::int64_t, 5>, std::size_t> compiled;
  std::vector<memory> parts;
  for (const Slice& slice : slices) {
    if (&slice != &slices[0]) kernel.begin_task();
    const auto [found, is_new] = compiled.try_emplace(slice.key());
    if (is_new)
      found->second = kernel.compile<dnnl::convolution_backward_weights>(slice.problem.backward_filter(layout));
    parts.push_back(slices.size() == 1 ? total : kernel.scratch(layout));
    kernel.call(found->second, {{DNNL_ARG_SRC, kernel.input(0, nhwc(slice.problem.x), slice.x_begin)},
                                {DNNL_ARG_DIFF_DST, kernel.input(1, nhwc(slice.problem.y), slice.y_begin)},
                                {DNNL_ARG_DIFF_WEIGHTS, parts.back()}});
  }
  if (parts.size() > 1) kernel.sum(std::move(parts), total);
  if (total == dw) return;
  kernel.begin_step();
  copy_filter(kernel, whole, total, dw);
}

/// Every task computes the gradients of some of the filters, from a copy of what only they see of dy.
void share_filters(PrimitiveKernel& kernel, const Problem& whole, std::int64_t pieces) {
  const memory dy = kernel.input(1, nhwc(whole.y));
  const memory x = kernel.input(0, nhwc(whole.x));
  for (std::int64_t i = 0; i < pieces; ++i) {
    const Part filters = part_of(whole.y[1], kFilterBlock, pieces, i);
    Problem problem = whole;
    problem.w[0] = problem.y[1] = filters.size;
    if (i > 0) kernel.begin_task();
    const memory seen = kernel.scratch(nhwc(problem.y));
    kernel.copy(*kernel.view(dy, problem.y, {0, filters.begin, 0, 0}), seen);
    const auto description = problem.backward_filter(problem.any_filter());
    const memory::desc layout = description.diff_weights_desc();
    const memory dw = kernel.output(0, problem.krsc(), filters.begin * whole.w_strides[0]);
    const memory computed = layout == dw.get_desc() ? dw : kernel.scratch(layout);
    kernel.call(kernel.compile<dnnl::convolution_backward_weights>(description),
                {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, seen}, {DNNL_ARG_DIFF_WEIGHTS, computed}});
    if (computed != dw) kernel.copy(computed, dw);
  }
}

}  // namespace

std::unique_ptr<Kernel> conv2d(const KernelSpec& spec) {
  const bool has_bias = spec.inputs.size() == 3;
  const Conv2dOptions& options = spec.attributes<ops::Conv2d>();
  const Problem whole(options, spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape);
  dnnl::primitive_attr attributes = user_scratchpad();
  if (options.activation != Activation::none) attributes.set_post_ops(within(range_of(options.activation)));
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    add_slices<dnnl::convolution_forward>(
        kernel, whole, spec.constant_filter, Rows::of_result,
        [&](const Problem& problem, const memory::desc& filter) {
          return has_bias ? problem.forward(filter, attributes, problem.bias()) : problem.forward(filter, attributes);
        },
        [&](const Slice& slice, const memory& filter) {
          PrimitiveKernel::Arguments arguments{{DNNL_ARG_SRC, kernel.input(0, nhwc(slice.problem.x), slice.x_begin)},
                                               {DNNL_ARG_WEIGHTS, filter},
                                               {DNNL_ARG_DST, kernel.output(0, nhwc(slice.problem.y), slice.y_begin)}};
          if (has_bias) arguments.insert({DNNL_ARG_BIAS, kernel.input(2, slice.problem.bias())});
          return arguments;
        });
  });
}

std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec) {
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardData>().options;
  const Problem whole(options, spec.outputs[0].shape, spec.inputs[1].shape, spec.inputs[0].shape);
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    add_slices<dnnl::convolution_backward_data>(
        kernel, whole, spec.constant_filter, Rows::of_image,
        [](const Problem& problem, const memory::desc& filter) { return problem.backward_data(filter); },
        [&](const Slice& slice, const memory& filter) {
          return PrimitiveKernel::Arguments{
              {DNNL_ARG_DIFF_DST, kernel.input(0, nhwc(slice.problem.y), slice.y_begin)},
              {DNNL_ARG_WEIGHTS, filter},
              {DNNL_ARG_DIFF_SRC, kernel.output(0, nhwc(slice.problem.x), slice.x_begin)}};
        });
  });
}

std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec) {
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardFilter>().options;
  const Problem whole(options, spec.inputs[0].shape, spec.outputs[0].shape, spec.inputs[1].shape);
  // oneDNN 2.6 gathers the pixels that a strided 1x1 filter sees, and on AVX2 writes beyond its scratchpad if their
  // channels do not fill a vector.
  constexpr std::int64_t kVector = 16;
  const Shape& filter = spec.outputs[0].shape;
  const bool is_strided = whole.stride[0] > 1 || whole.stride[1] > 1;
  if (filter[1] * filter[2] == 1 && is_strided && filter[3] < kVector) return nullptr;
  // All partial sums together may be half as large as what is read.
  const std::int64_t read = spec.inputs[0].shape.size() + spec.inputs[1].shape.size();
  const std::int64_t slices = whole.pieces(std::min(whole.outer() / kLeastOuter, read / (2 * whole.filter_size())));
  const std::int64_t shares = whole.grouped() ? 1 : whole.pieces(whole.y[1] / kLeastFilters);
  return build_kernel(spec, [&](PrimitiveKernel& kernel) {
    if (slices >= shares) {
      sum_slices(kernel, whole, slices);
    } else {
      share_filters(kernel, whole, shares);
    }
  });
}

}  // namespace braid::cpu::onednn
