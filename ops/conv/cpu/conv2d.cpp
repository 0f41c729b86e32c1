// Convolutions in f32 are done by our own loops if their groups are small, by Winograd's algorithm or as indirect
// convolutions where these are faster, else by oneDNN. The portable loops here, whose innermost one runs over channels,
// serve f64, builds without oneDNN, and the tests as their oracle.

#include "ops/conv/conv2d.h"

#include "core/device/parallel.h"
#include "ops/conv/cpu/fast_kernels.h"
#include "ops/conv/cpu_algorithm.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/multiply_add.h"
#include "ops/matmul/linear.h"

namespace braid::cpu {

namespace {

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

/// Extents of one convolution, under the names of the field: x [n,h,w,c], filter [k,r,s,c/groups], y [n,p,q,k].
struct Geometry {
  std::int64_t n, h, w, c, k, r, s, p, q, groups, group_c, group_k;
  Conv2dOptions options;

  Geometry(const Conv2dOptions& o, const Shape& x, const Shape& filter, const Shape& y)
      : n(x[0]),
        h(x[1]),
        w(x[2]),
        c(x[3]),
        k(y[3]),
        r(filter[1]),
        s(filter[2]),
        p(y[1]),
        q(y[2]),
        groups(o.groups),
        group_c(c / groups),
        group_k(k / groups),
        options(o) {}

  /// Input row seen by output row `out` at filter row `tap`; it may lie in the padding.
  std::int64_t input_row(std::int64_t out, std::int64_t tap) const {
    return out * options.stride.h + tap * options.dilation.h - options.padding.h;
  }
  std::int64_t input_column(std::int64_t out, std::int64_t tap) const {
    return out * options.stride.w + tap * options.dilation.w - options.padding.w;
  }
  /// Output columns that see a column of the image, not of the padding, at filter column `tap`.
  Range columns(std::int64_t tap) const {
    const std::int64_t first = input_column(0, tap), stride = options.stride.w;
    const std::int64_t begin = first >= 0 ? 0 : (-first + stride - 1) / stride;
    const std::int64_t end = first >= w ? 0 : (w - 1 - first) / stride + 1;
    return {begin, std::max(begin, std::min(q, end))};
  }
};

/// One output row [Q,K]. The filter is [R,S,C/groups,K], so that the innermost loop can run over output channels. The
/// bias is null or [K].
template <class T>
void forward_row(const Geometry& g, std::int64_t image, std::int64_t out, const T* x, const T* transposed,
                 const T* bias, T* y) {
  for (std::int64_t q = 0; q < g.q; ++q) start_from(bias, g.k, y + q * g.k);
  for (std::int64_t r = 0; r < g.r; ++r) {
    const std::int64_t row = g.input_row(out, r);
    if (row < 0 || row >= g.h) continue;
    const T* x_row = x + (image * g.h + row) * g.w * g.c;
    for (std::int64_t s = 0; s < g.s; ++s) {
      const T* tap = transposed + (r * g.s + s) * g.group_c * g.k;
      const Range columns = g.columns(s);
      for (std::int64_t q = columns.begin; q < columns.end; ++q) {
        for (std::int64_t group = 0; group < g.groups; ++group) {
          multiply_add(g.group_k, g.group_c, x_row + g.input_column(q, s) * g.c + group * g.group_c, 1,
                       tap + group * g.group_k, g.k, y + q * g.k + group * g.group_k);
        }
      }
    }
  }
  if (g.options.activation != Activation::none) std::transform(y, y + g.q * g.k, y, range_of(g.options.activation));
}

/// One row [W,C] of the input's gradient: gathers from every output row that saw it.
template <class T>
void backward_data_row(const Geometry& g, std::int64_t image, std::int64_t row, const T* dy, const T* filter, T* dx) {
  std::fill_n(dx, g.w * g.c, T(0));
  for (std::int64_t r = 0; r < g.r; ++r) {
    const std::int64_t offset = row - g.input_row(0, r);
    const std::int64_t out = offset / g.options.stride.h;
    if (offset < 0 || offset % g.options.stride.h != 0 || out >= g.p) continue;
    const T* dy_row = dy + (image * g.p + out) * g.q * g.k;
    for (std::int64_t s = 0; s < g.s; ++s) {
      const T* tap = filter + (r * g.s + s) * g.group_c;
      const std::int64_t pitch = g.r * g.s * g.group_c;
      const Range columns = g.columns(s);
      for (std::int64_t q = columns.begin; q < columns.end; ++q) {
        for (std::int64_t group = 0; group < g.groups; ++group) {
          multiply_add(g.group_c, g.group_k, dy_row + q * g.k + group * g.group_k, 1, tap + group * g.group_k * pitch,
                       pitch, dx + g.input_column(q, s) * g.c + group * g.group_c);
        }
      }
    }
  }
}

/// The gradient [S,C/groups] of filter row r of output channel k.
template <class T>
void backward_filter_row(const Geometry& g, std::int64_t k, std::int64_t r, const T* x, const T* dy, T* dw) {
  std::fill_n(dw, g.s * g.group_c, T(0));
  const std::int64_t first_channel = k / g.group_k * g.group_c;
  for (std::int64_t image = 0; image < g.n; ++image) {
    for (std::int64_t out = 0; out < g.p; ++out) {
      const std::int64_t row = g.input_row(out, r);
      if (row < 0 || row >= g.h) continue;
      const T* x_row = x + (image * g.h + row) * g.w * g.c + first_channel;
      const T* dy_row = dy + (image * g.p + out) * g.q * g.k + k;
      for (std::int64_t s = 0; s < g.s; ++s) {
        const Range columns = g.columns(s);
        if (columns.begin == columns.end) continue;
        multiply_add(g.group_c, columns.end - columns.begin, dy_row + columns.begin * g.k, g.k,
                     x_row + g.input_column(columns.begin, s) * g.c, g.options.stride.w * g.c, dw + s * g.group_c);
      }
    }
  }
}

/// Of a filter that covers all of an image: a linear layer, with x [N,R·S·C], filter [K,R·S·C] and y [N,K]. Null if it
/// covers less, or if there is a faster kernel.
std::unique_ptr<Kernel> as_linear(const KernelSpec& spec, const Conv2dOptions& options, const Shape& x,
                                  const Shape& filter, const Op& linear) {
  const bool covers = options.padding == Extent2d(0) && options.groups == 1 && filter[1] == x[1] && filter[2] == x[2];
  if (!covers || options.activation != Activation::none || !spec.allows_fast_kernels()) return nullptr;
  if (should_use(ops::CpuAlgorithm::indirect, spec)) return nullptr;
  const auto as_matrices = [](std::span<const ValueDesc> values) {
    std::vector<ValueDesc> matrices(values.begin(), values.end());
    for (ValueDesc& value : matrices) {
      const std::int64_t rows = value.shape[0];
      if (value.shape.rank() == 4) value.shape = {rows, value.shape.size() / rows};
    }
    return matrices;
  };
  const std::vector<ValueDesc> inputs = as_matrices(spec.inputs), outputs = as_matrices(spec.outputs);
  return make_kernel(DeviceType::cpu, spec.for_part(linear, inputs, outputs));
}

}  // namespace

Implementations make_conv2d(const KernelSpec& spec) {
  if (auto kernel =
          as_linear(spec, spec.attributes<ops::Conv2d>(), spec.inputs[0].shape, spec.inputs[1].shape, ops::Linear()))
    return kernel;
  if (auto kernel = fast_kernel(spec, {grouped::conv2d, winograd::conv2d, indirect::conv2d, onednn::conv2d}))
    return kernel;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const Shape &x_shape = spec.inputs[0].shape, &filter_shape = spec.inputs[1].shape;
    const Geometry g(spec.attributes<ops::Conv2d>(), x_shape, filter_shape, spec.outputs[0].shape);
    const std::size_t bytes = static_cast<std::size_t>(filter_shape.size()) * sizeof(T);
    return function_kernel(bytes, [=, width = spec.width](auto inputs, auto outputs, void* workspace) {
      const T *x = at<const T>(inputs, 0), *bias = inputs.size() == 3 ? at<const T>(inputs, 2) : nullptr;
      T *y = at<T>(outputs, 0), *transposed = static_cast<T*>(workspace);
      transpose(width, g.k, g.r * g.s * g.group_c, at<const T>(inputs, 1), transposed);
      parallel_for(width, g.n * g.p, 1, [=](std::int64_t i, std::int64_t) {
        forward_row(g, i / g.p, i % g.p, x, transposed, bias, y + i * g.q * g.k);
      });
    });
  });
}

Implementations make_conv2d_backward_data(const KernelSpec& spec) {
  if (auto kernel = as_linear(spec, spec.attributes<ops::Conv2dBackwardData>().options, spec.outputs[0].shape,
                              spec.inputs[1].shape, ops::LinearBackwardData()))
    return kernel;
  if (auto kernel = fast_kernel(spec, {grouped::conv2d_backward_data, winograd::conv2d_backward_data,
                                       indirect::conv2d_backward_data, onednn::conv2d_backward_data}))
    return kernel;
  const Shape &y_shape = spec.inputs[0].shape, &filter_shape = spec.inputs[1].shape;
  const Geometry g(spec.attributes<ops::Conv2dBackwardData>().options, spec.outputs[0].shape, filter_shape, y_shape);
  return float_kernel(spec, [=, width = spec.width]<class T>(auto inputs, auto outputs) {
    const T *dy = at<const T>(inputs, 0), *filter = at<const T>(inputs, 1);
    T* dx = at<T>(outputs, 0);
    parallel_for(width, g.n * g.h, 1, [=](std::int64_t i, std::int64_t) {
      backward_data_row(g, i / g.h, i % g.h, dy, filter, dx + i * g.w * g.c);
    });
  });
}

Implementations make_conv2d_backward_filter(const KernelSpec& spec) {
  if (auto kernel = as_linear(spec, spec.attributes<ops::Conv2dBackwardFilter>().options, spec.inputs[0].shape,
                              spec.outputs[0].shape, ops::LinearBackwardFilter()))
    return kernel;
  if (auto kernel = fast_kernel(spec, {grouped::conv2d_backward_filter, winograd::conv2d_backward_filter,
                                       indirect::conv2d_backward_filter, onednn::conv2d_backward_filter}))
    return kernel;
  const Geometry g(spec.attributes<ops::Conv2dBackwardFilter>().options, spec.inputs[0].shape, spec.outputs[0].shape,
                   spec.inputs[1].shape);
  return float_kernel(spec, [=, width = spec.width]<class T>(auto inputs, auto outputs) {
    const T *x = at<const T>(inputs, 0), *dy = at<const T>(inputs, 1);
    T* dw = at<T>(outputs, 0);
    parallel_for(width, g.k * g.r, 1, [=](std::int64_t i, std::int64_t) {
      backward_filter_row(g, i / g.r, i % g.r, x, dy, dw + i * g.s * g.group_c);
    });
  });
}

}  // namespace braid::cpu
