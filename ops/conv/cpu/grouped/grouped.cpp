#include <algorithm>

#include "ops/conv/conv2d.h"
#include "ops/conv/cpu/fast_kernels.h"
#include "ops/conv/cpu/grouped/vectors.h"
#include "ops/conv/cpu/normalized_input.h"
#include "ops/conv/cpu_algorithm.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/multiply_add.h"

// Along each axis, outputs fall into runs that see the same taps of the filter: inside the image all of them, near an
// edge some. A run of rows and a run of columns make a region, which one call computes without a test for the edge. The
// gradient with respect to the input is such a convolution too, from dy to dx; with a stride it has runs for every
// remainder, because neighbouring inputs are then seen by different taps.
//
// The work is cut into bands of rows, or of whole images where these are small, which stay in the L2 cache. If pixels
// must be normalised, those that a band sees are copied first.

namespace braid::cpu::grouped {

#if defined(__x86_64__)

namespace {

/// A convolution along one axis.
struct Axis {
  std::int64_t input, output, taps, stride, padding, dilation;
};

/// Outputs first, first + step, … that see the same taps.
struct Run {
  std::int64_t first, count, step;
  std::int64_t tap, taps, tap_step;              ///< the taps, tap_step apart in the filter
  std::int64_t input, input_step, input_of_tap;  ///< what the first output sees; from output to output, tap to tap
};

/// Runs among `outputs` outputs. input_of(output, tap) is -1 where the tap sees no input. Outputs that are `phases`
/// apart see inputs that are input_step apart.
template <class InputOf>
std::vector<Run> find_runs(std::int64_t outputs, std::int64_t taps, std::int64_t phases, std::int64_t input_step,
                           const InputOf& input_of) {
  std::vector<Run> runs;
  for (std::int64_t phase = 0; phase < std::min(phases, outputs); ++phase) {
    for (std::int64_t output = phase; output < outputs; output += phases) {
      Run run{output, 1, phases, 0, 0, 1, 0, input_step, 0};
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        const std::int64_t input = input_of(output, tap);
        if (input < 0) continue;
        if (run.taps == 0) run.tap = tap, run.input = input;
        if (run.taps == 1) run.tap_step = tap - run.tap, run.input_of_tap = input - run.input;
        ++run.taps;
      }
      const bool extends = output > phase && runs.back().tap == run.tap && runs.back().taps == run.taps;
      if (extends) {
        ++runs.back().count;
      } else {
        runs.push_back(run);
      }
    }
  }
  return runs;
}

/// Runs from x to y.
std::vector<Run> forward_runs(const Axis& a) {
  return find_runs(a.output, a.taps, 1, a.stride, [&](std::int64_t output, std::int64_t tap) {
    const std::int64_t input = output * a.stride - a.padding + tap * a.dilation;
    return input < a.input ? input : -1;
  });
}

/// Runs from dy to dx.
std::vector<Run> backward_runs(const Axis& a) {
  return find_runs(a.input, a.taps, a.stride, 1, [&](std::int64_t input, std::int64_t tap) {
    const std::int64_t place = input + a.padding - tap * a.dilation;
    return place >= 0 && place % a.stride == 0 && place / a.stride < a.output ? place / a.stride : -1;
  });
}

/// The outputs of a run that lie in [begin, end).
Run clip(Run run, std::int64_t begin, std::int64_t end) {
  const auto before = [&](std::int64_t place) {  // outputs of the run that are less than place
    return std::clamp<std::int64_t>((place - run.first + run.step - 1) / run.step, 0, run.count);
  };
  const std::int64_t skipped = before(begin);
  run.count = before(end) - skipped;
  run.first += skipped * run.step;
  run.input += skipped * run.input_step;
  return run;
}

/// Bands of outputs: rows of one image, or whole images.
struct Bands {
  std::int64_t images, rows;            ///< extents of the outputs
  std::int64_t band_images, band_rows;  ///< extents of a band

  Bands(std::int64_t image_count, std::int64_t row_count, std::int64_t row_bytes)
      : images(image_count), rows(row_count) {
    constexpr std::int64_t kBytes = 256 * 1024;
    band_rows = std::clamp<std::int64_t>(kBytes / row_bytes, 1, rows);
    band_images = band_rows < rows ? 1 : std::clamp<std::int64_t>(kBytes / (rows * row_bytes), 1, images);
  }
  std::int64_t per_image() const { return divide_up(rows, band_rows); }
  std::int64_t count() const { return divide_up(images, band_images) * per_image(); }
};

/// The filter [C,R·S,group] of a convolution from x to y, or from dy to dx, as the inner loops read it: blocks
/// [C/16,R·S,group,16] of 16 outputs, or [R·S,C] if every group is a channel.
struct Taps {
  std::int64_t channels, rows, columns, group;
  bool to_inputs;  ///< from dy to dx

  explicit Taps(const Shape& filter, bool backward = false)
      : channels(filter[0]), rows(filter[1]), columns(filter[2]), group(filter[3]), to_inputs(backward) {}

  std::int64_t count() const { return rows * columns; }
  std::int64_t size() const { return channels * count() * group; }
  std::int64_t block() const { return group == 1 ? channels : 16; }
  std::int64_t tap() const { return block() * group; }  ///< floats of one tap of a block
  /// Calls f(i, place) for element i of the taps and its place in the filter.
  template <class F>
  void each(F f) const {
    std::int64_t i = 0;
    for (std::int64_t first = 0; first < channels; first += block()) {
      for (std::int64_t tap = 0; tap < count(); ++tap) {
        for (std::int64_t j = 0; j < group; ++j) {
          for (std::int64_t c = first; c < first + block(); ++c) {
            const std::int64_t k = to_inputs ? c / group * group + j : c;
            f(i++, (k * count() + tap) * group + (to_inputs ? c % group : j));
          }
        }
      }
    }
  }
};

/// A convolution x → y of images [N,H,W,C]; or, for backward data, the one from dy to dx.
struct Problem {
  Shape x, y;
  Taps taps;
  std::vector<Run> rows, columns;
  Bands bands;

  Problem(const Shape& from, const Shape& to, const Taps& filter, std::vector<Run> row_runs,
          std::vector<Run> column_runs)
      : x(from),
        y(to),
        taps(filter),
        rows(std::move(row_runs)),
        columns(std::move(column_runs)),
        bands(to[0], to[1], 4 * to[3] * (to[2] + from[2])) {}

  /// Floats of the copy that normalized() makes.
  std::int64_t copy_floats(const NormalizedInput* input) const {
    if (input == nullptr) return 0;
    std::int64_t most = 0;
    for (std::int64_t band = 0; band < bands.per_image(); ++band) {
      const auto [first, end] = input_rows(band * bands.band_rows);
      most = std::max(most, end - first);
    }
    return bands.band_images * most * x[2] * x[3];
  }
  /// Normalises the rows of `from` that a band sees. Returns the pointer to use instead of `from` for this band.
  /// Without an input to normalise, that is `from`.
  const float* normalized(const NormalizedInput* input, std::int64_t band, const float* from, float* copy) const {
    if (input == nullptr) return from;
    const std::int64_t image = band / bands.per_image() * bands.band_images, row_floats = x[2] * x[3];
    const auto [first, end] = input_rows(band % bands.per_image() * bands.band_rows);
    const std::int64_t images = std::min(bands.band_images, bands.images - image);
    const std::int64_t begin = (image * x[1] + first) * row_floats;
    normalize(*input, from + begin, images * (end - first) * x[2], x[3], copy);
    return copy - begin;
  }

  /// Calls body(region, is_first, is_last) for the regions of a band and up to 3x3 taps at a time; is_first and is_last
  /// for the first and the last taps of a region. A region that sees no tap comes with no taps.
  template <class Body>
  void for_regions(std::int64_t band, const float* from, float* to, float* filter, const Body& body) const {
    const std::int64_t image = band / bands.per_image() * bands.band_images;
    const std::int64_t row = band % bands.per_image() * bands.band_rows;
    const std::int64_t images = std::min(bands.band_images, bands.images - image);
    for (const Run& whole : rows) {
      const Run h = clip(whole, row, row + bands.band_rows);
      if (h.count == 0) continue;
      for (const Run& w : columns) {
        for (std::int64_t i = 0; i == 0 || i < h.taps; i += kMaxTaps) {
          for (std::int64_t j = 0; j == 0 || j < w.taps; j += kMaxTaps) {
            const bool is_last = i + kMaxTaps >= h.taps && j + kMaxTaps >= w.taps;
            body(region(image, images, h, w, i, j, from, to, filter), i + j == 0, is_last);
          }
        }
      }
    }
  }

 private:
  /// The rows that outputs from this row on see in their band: [first, end). All, if it has several images.
  std::pair<std::int64_t, std::int64_t> input_rows(std::int64_t row) const {
    if (bands.band_images > 1) return {0, x[1]};
    std::int64_t first = x[1], end = 0;
    for (const Run& whole : rows) {
      const Run h = clip(whole, row, row + bands.band_rows);
      if (h.count == 0 || h.taps == 0) continue;
      first = std::min(first, h.input);
      end = std::max(end, h.input + (h.count - 1) * h.input_step + (h.taps - 1) * h.input_of_tap + 1);
    }
    return {std::min(first, end), end};
  }

  /// The taps from the i-th row and j-th column of those that the runs see.
  Region region(std::int64_t image, std::int64_t images, const Run& h, const Run& w, std::int64_t i, std::int64_t j,
                const float* from, float* to, float* filter) const {
    const std::int64_t c = y[3], x_row = x[2] * c, y_row = y[2] * c, tap = taps.tap(), w_row = taps.columns * tap;
    const std::int64_t input_row = h.input + i * h.input_of_tap, input_column = w.input + j * w.input_of_tap;
    const bool seen = h.taps > 0 && w.taps > 0;
    return {.x = from + (image * x[1] + input_row) * x_row + input_column * c,
            .y = to + (image * y[1] + h.first) * y_row + w.first * c,
            .w = filter + (h.tap + i * h.tap_step) * w_row + (w.tap + j * w.tap_step) * tap,
            .channels = c,
            .group = taps.group,
            .count = {images, h.count, w.count},
            .x_step = {x[1] * x_row, h.input_step * x_row, w.input_step * c},
            .y_step = {y[1] * y_row, h.step * y_row, w.step * c},
            .taps = {seen ? std::min(kMaxTaps, h.taps - i) : 0, seen ? std::min(kMaxTaps, w.taps - j) : 0},
            .x_tap = {h.input_of_tap * x_row, w.input_of_tap * c},
            .w_tap = {h.tap_step * w_row, w.tap_step * tap},
            .w_block = taps.count() * tap};
  }
};

bool applies(const KernelSpec& spec) { return should_use(ops::CpuAlgorithm::grouped, spec, onednn::available()); }

Axis height_of(const Conv2dOptions& o, const Shape& x, const Shape& y, const Shape& w) {
  return {x[1], y[1], w[1], o.stride.h, o.padding.h, o.dilation.h};
}
Axis width_of(const Conv2dOptions& o, const Shape& x, const Shape& y, const Shape& w) {
  return {x[2], y[2], w[2], o.stride.w, o.padding.w, o.dilation.w};
}

/// The bias is null or [C].
void fill_unseen(const Region& region, const float* bias, ActivationRange range) {
  for (std::int64_t n = 0; n < region.count[0]; ++n) {
    for (std::int64_t p = 0; p < region.count[1]; ++p) {
      for (std::int64_t q = 0; q < region.count[2]; ++q) {
        float* y = region.y + n * region.y_step[0] + p * region.y_step[1] + q * region.y_step[2];
        start_from(bias, region.channels, y);
        std::transform(y, y + region.channels, y, range);
      }
    }
  }
}

/// Inputs are the image, the filter and perhaps a bias, after which the sums are kept within the range.
std::unique_ptr<Kernel> convolution(const KernelSpec& spec, Problem problem, ActivationRange range) {
  const std::int64_t copy = problem.copy_floats(spec.normalized);
  const std::size_t bytes = static_cast<std::size_t>(problem.taps.size() + spec.width * copy) * sizeof(float);
  return function_kernel(bytes, [=, problem = std::move(problem), width = spec.width, normalized = spec.normalized](
                                    auto inputs, auto outputs, void* workspace) {
    const float *x = at<const float>(inputs, 0), *bias = inputs.size() == 3 ? at<const float>(inputs, 2) : nullptr;
    const float* filter = at<const float>(inputs, 1);
    float *y = at<float>(outputs, 0), *w = static_cast<float*>(workspace);
    problem.taps.each([=](std::int64_t i, std::int64_t place) { w[i] = filter[place]; });
    parallel_for(width, problem.bands.count(), 1, [&](std::int64_t band, std::int64_t, int member) {
      float* const memory = w + problem.taps.size() + member * copy;
      const float* const from = problem.normalized(normalized, band, x, memory);
      problem.for_regions(band, from, y, w, [&](const Region& region, bool is_first, bool is_last) {
        if (region.taps[0] == 0) {
          fill_unseen(region, bias, range);
        } else {
          convolve(region, !is_first, bias, is_last ? range : range_of(Activation::none));
        }
      });
    });
  });
}

/// Every part of the bands has separate sums, which are added in order.
std::unique_ptr<Kernel> filter_gradient(const KernelSpec& spec, Problem problem) {
  constexpr std::int64_t kParts = 16;  // not the width, on which no result may depend
  const std::int64_t size = problem.taps.size();
  const std::int64_t bands = problem.bands.count(), grain = divide_up(bands, kParts);
  const std::int64_t parts = divide_up(bands, grain), copy = problem.copy_floats(spec.normalized);
  const std::size_t bytes = static_cast<std::size_t>(parts * size + spec.width * copy) * sizeof(float);
  return function_kernel(bytes, [=, problem = std::move(problem), width = spec.width, normalized = spec.normalized](
                                    auto inputs, auto outputs, void* workspace) {
    const float *x = at<const float>(inputs, 0), *dy = at<const float>(inputs, 1);
    float *sums = static_cast<float*>(workspace), *dw = at<float>(outputs, 0);
    parallel_for(width, bands, grain, [&](std::int64_t begin, std::int64_t end, int member) {
      float *const sum = sums + begin / grain * size, *const memory = sums + parts * size + member * copy;
      std::fill_n(sum, size, 0.0f);
      for (std::int64_t band = begin; band < end; ++band) {
        const float* const from = problem.normalized(normalized, band, x, memory);
        // Regions serve both directions; here y is only read.
        problem.for_regions(band, from, const_cast<float*>(dy), sum, [](const Region& region, bool, bool) {
          if (region.taps[0] > 0) add_products(region);
        });
      }
    });
    parallel_for(width, size, kElementGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t part = 1; part < parts; ++part) {
        for_each_element(begin, end, [=](std::int64_t i) { sums[i] += sums[part * size + i]; });
      }
    });
    problem.taps.each([=](std::int64_t i, std::int64_t place) { dw[place] = sums[i]; });
  });
}

}  // namespace

std::unique_ptr<Kernel> conv2d(const KernelSpec& spec) {
  if (!applies(spec)) return nullptr;
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  const Conv2dOptions& options = spec.attributes<ops::Conv2d>();
  const Axis height = height_of(options, x, y, w), width = width_of(options, x, y, w);
  return convolution(spec, Problem(x, y, Taps(w), forward_runs(height), forward_runs(width)),
                     range_of(options.activation));
}

std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec) {
  if (!applies(spec)) return nullptr;
  const Shape &dy = spec.inputs[0].shape, &w = spec.inputs[1].shape, &dx = spec.outputs[0].shape;
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardData>().options;
  const Axis height = height_of(options, dx, dy, w), width = width_of(options, dx, dy, w);
  return convolution(spec, Problem(dy, dx, Taps(w, true), backward_runs(height), backward_runs(width)),
                     range_of(Activation::none));
}

std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec) {
  if (!applies(spec)) return nullptr;
  const Shape &x = spec.inputs[0].shape, &dy = spec.inputs[1].shape, &w = spec.outputs[0].shape;
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardFilter>().options;
  const Axis height = height_of(options, x, dy, w), width = width_of(options, x, dy, w);
  return filter_gradient(spec, Problem(x, dy, Taps(w), forward_runs(height), forward_runs(width)));
}

#else  // the inner loops are written for one kind of processor

std::unique_ptr<Kernel> conv2d(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec&) { return nullptr; }

#endif

}  // namespace braid::cpu::grouped
