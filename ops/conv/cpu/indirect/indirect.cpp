#include <algorithm>
#include <vector>

#include "ops/conv/conv2d.h"
#include "ops/conv/cpu/fast_kernels.h"
#include "ops/conv/cpu/indirect/panels.h"
#include "ops/conv/cpu_algorithm.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

// A convolution is a matrix product over channels for each tap of the filter. Its left rows are the pixels that outputs
// see at the tap. They are multiplied in place, eight outputs at a time, through pointers: to the pixels, and to zeros
// outside of the image (Dukhan 2019, "The Indirect Convolution Algorithm"). The right matrix is the filter, a panel of
// 32 channels at a time:
//
//     forward           y[p,k]    = Σ_{t,c} x[p⊕t,c]·w[k,t,c]     p⊕t: the pixel of x that output p sees at tap t
//     backward data     dx[q,c]   = Σ_{t,k} dy[q⊖t,k]·w[k,t,c]    q⊖t: the output that sees pixel q at tap t, if any
//     backward filter   dw[k,t,c] = Σ_p dy[p,k]·x[p⊕t,c]
//
// The filter is packed in chunks, each of which is multiplied while it is in the first cache. oneDNN copies all of it
// to another layout first, which takes longer than the products where a large filter meets few pixels. Many pixels at
// one tap are in pointwise.cpp. For the filter's own gradient, pixels of both operands are packed, once for up to 256
// channels of the other; with more channels at one tap, pointwise_gradient.cpp packs them once.

namespace braid::cpu::indirect {

#if defined(__x86_64__)

namespace {

constexpr std::int64_t kDepth = 256;  ///< rows of a packed panel, about what the first cache holds
constexpr float kZeros[kDepth] = {};  ///< a pixel outside of the image

/// Pixels of a batch [n,rows,columns].
struct Grid {
  std::int64_t n, rows, columns;
  std::int64_t pixels() const { return n * rows * columns; }
};

/// The pixels of the source that each pixel of the target is computed from, axis by axis.
struct Indirection {
  Grid target, source;
  std::int64_t taps[2];                  ///< rows and columns of the filter
  std::int64_t phases[2];                ///< the distance of rows, and columns, of the target that have the same taps
  std::vector<std::int64_t> sources[2];  ///< [place in the target][tap] on an axis: the place in the source, or -1

  std::int64_t all_taps() const { return taps[0] * taps[1]; }

  /// The i-th pixel of the target in an order by phases.
  std::int64_t target_pixel(std::int64_t i) const {
    for (std::int64_t phase = 0;; ++phase) {
      const std::int64_t row = phase / phases[1], column = phase % phases[1];
      const std::int64_t rows = divide_up(target.rows - row, phases[0]);
      const std::int64_t columns = divide_up(target.columns - column, phases[1]);
      if (const std::int64_t count = target.n * rows * columns; i >= count) {
        i -= count;
        continue;
      }
      const std::int64_t image = i / (rows * columns), inside = i % (rows * columns);
      return (image * target.rows + row + inside / columns * phases[0]) * target.columns + column +
             inside % columns * phases[1];
    }
  }

  /// Calls f(tap, pixel of the source) for every tap, with -1 outside of the image.
  template <class F>
  void for_taps(std::int64_t pixel, const F& f) const {
    const std::int64_t row = pixel / target.columns, column = pixel % target.columns;
    const std::int64_t* const columns = &sources[1][static_cast<std::size_t>(column * taps[1])];
    const std::int64_t* const rows = &sources[0][static_cast<std::size_t>(row % target.rows * taps[0])];
    const std::int64_t first = row / target.rows * source.rows;
    for (std::int64_t r = 0; r < taps[0]; ++r) {
      for (std::int64_t s = 0; s < taps[1]; ++s) {
        f(r * taps[1] + s, rows[r] < 0 || columns[s] < 0 ? -1 : (first + rows[r]) * source.columns + columns[s]);
      }
    }
  }
};

/// Maps outputs to the inputs that they see.
Indirection inputs_of(const Conv2dOptions& options, const Shape& x, const Shape& filter, const Shape& y) {
  Indirection result{{y[0], y[1], y[2]}, {x[0], x[1], x[2]}, {filter[1], filter[2]}, {1, 1}, {}};
  const auto find = [&](int axis, std::int64_t stride, std::int64_t dilation, std::int64_t padding) {
    for (std::int64_t output = 0; output < y[1 + axis]; ++output) {
      for (std::int64_t tap = 0; tap < filter[1 + axis]; ++tap) {
        const std::int64_t place = output * stride + tap * dilation - padding;
        result.sources[axis].push_back(place < x[1 + axis] ? std::max<std::int64_t>(place, -1) : -1);
      }
    }
  };
  find(0, options.stride.h, options.dilation.h, options.padding.h);
  find(1, options.stride.w, options.dilation.w, options.padding.w);
  return result;
}

/// Maps inputs to the outputs that see them.
Indirection outputs_of(const Conv2dOptions& options, const Shape& x, const Shape& filter, const Shape& y) {
  const Indirection inputs = inputs_of(options, x, filter, y);
  Indirection result{inputs.source,
                     inputs.target,
                     {filter[1], filter[2]},
                     {std::min(options.stride.h, x[1]), std::min(options.stride.w, x[2])},
                     {}};
  for (int axis = 0; axis < 2; ++axis) {
    const std::int64_t taps = result.taps[axis];
    result.sources[axis].assign(static_cast<std::size_t>(x[1 + axis] * taps), -1);
    for (std::int64_t i = 0; i < y[1 + axis] * taps; ++i) {
      const std::int64_t place = inputs.sources[axis][static_cast<std::size_t>(i)];
      if (place >= 0) result.sources[axis][static_cast<std::size_t>(place * taps + i % taps)] = i / taps;
    }
  }
  return result;
}

/// Forward, or backward data. Each task computes a panel of channels for all pixels.
class Convolution final : public PanelKernel {
 public:
  Convolution(const Indirection& pixels, const KernelSpec& spec, const Panels& panels, ActivationRange range)
      : PanelKernel(spec, panels, range), taps_(panels.taps()), depth_(panels.depth()), columns_(panels.columns()) {
    const std::int64_t size = pixels.target.pixels(), blocks = divide_up(size, kRows);
    source_.resize(static_cast<std::size_t>(blocks * taps_ * kRows));
    for (std::int64_t i = 0; i < blocks; ++i) {
      const Part rows = part_of(size, 1, blocks, i);
      Block& block = blocks_.emplace_back(Block{rows.size, {}});
      for (std::int64_t row = 0; row < rows.size; ++row) {
        block.pixels[row] = pixels.target_pixel(rows.begin + row);
        pixels.for_taps(block.pixels[row], [&](std::int64_t tap, std::int64_t pixel) {
          source_[static_cast<std::size_t>((i * taps_ + tap) * kRows + row)] = pixel;
        });
      }
    }
  }

  void launch(const LaunchContext&) override {
    parallel_for(width_, panels_.count(), 1, [&](std::int64_t panel, std::int64_t) {
      const std::int64_t column = panel * kColumns;
      Result result{{},
                    0,
                    std::min(kColumns, columns_ - column),
                    false,
                    bias_ == nullptr ? nullptr : bias_ + column,
                    range_of(Activation::none)};
      // Chunks are some taps, or a slice of the channels at one tap.
      const std::int64_t chunk_taps = std::clamp<std::int64_t>(kDepth / depth_, 1, taps_);
      const std::int64_t slices = divide_up(depth_, kDepth);
      for (std::int64_t tap = 0; tap < taps_; tap += chunk_taps) {
        const Part taps{tap, std::min(chunk_taps, taps_ - tap)};
        for (std::int64_t slice = 0; slice < slices; ++slice) {
          if (tap + taps.size == taps_ && slice == slices - 1) result.range = range_;
          add_chunk(taps, part_of(depth_, 1, slices, slice), panel, result);
          result.add = true;
        }
      }
    });
  }

 private:
  /// Neighbouring pixels of the target, which are computed at once.
  struct Block {
    std::int64_t rows;
    std::int64_t pixels[kRows];
  };

  /// Adds some taps and channels of the source to a panel of the target.
  void add_chunk(Part taps, Part channels, std::int64_t panel, Result result) const {
    alignas(64) float packed[kDepth * kColumns];
    const float* chunk = packed;
    if (keeps_filter_) {
      chunk = static_cast<float*>(kept_->data()) + panel * panels_.size() +
              (taps.begin * depth_ + channels.begin) * kColumns;
    } else {
      panels_.pack_part(filter_, taps, channels, panel, packed);
    }
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      result.rows = block.rows;
      for (std::int64_t row = 0; row < block.rows; ++row) {
        result.y[row] = to_ + block.pixels[row] * columns_ + panel * kColumns;
      }
      Term terms[kDepth / ops::kLeastChannels];
      std::int64_t count = 0;
      for (std::int64_t tap = 0; tap < taps.size; ++tap) {
        const std::int64_t* const source = &source_[(i * taps_ + taps.begin + tap) * kRows];
        if (std::all_of(source, source + block.rows, [](std::int64_t pixel) { return pixel < 0; })) continue;
        Term& term = terms[count++];
        term.b = chunk + tap * channels.size * kColumns;
        for (std::int64_t row = 0; row < block.rows; ++row) {
          term.a[row] = source[row] < 0 ? kZeros : from_ + source[row] * depth_ + channels.begin;
        }
      }
      multiply(terms, count, channels.size, 1, result);
    }
  }

  std::int64_t taps_, depth_, columns_;  // of the filter, channels of the source and of the target
  std::vector<Block> blocks_;
  std::vector<std::int64_t> source_;  // [block][tap][row]: the pixel of the source, or -1
};

/// The gradient of the filter. Each task adds up some pixels for some filters and channels at one tap.
struct BackwardFilter {
  struct Task {
    Part rows;  ///< of outputs
    std::int64_t tap;
    Part filters, channels;
  };
  /// Pixels of x and dy that follow, and the distances of pixels.
  struct Next {
    const float* x;
    std::int64_t x_step;
    const float* dy;
    std::int64_t dy_step;

    void fetch(std::int64_t pixels, std::int64_t channels, std::int64_t filters) {
      constexpr std::int64_t kLine = 64 / sizeof(float);
      for (; pixels > 0; --pixels, x += x_step, dy += dy_step) {
        for (std::int64_t i = 0; i < channels; i += kLine) __builtin_prefetch(x + i, 0, 2);
        for (std::int64_t i = 0; i < filters; i += kLine) __builtin_prefetch(dy + i, 0, 2);
      }
    }
  };
  static constexpr std::int64_t kMost = 256;         ///< filters, and channels, of a task
  static constexpr std::int64_t kTasks = 16;         ///< at least, if there is as much to do
  static constexpr std::int64_t kLeastPixels = 256;  ///< of a task, if others sum other pixels of the same result
  static constexpr std::int64_t kChunk = 192;  ///< pixels that are multiplied at once: a panel stays in the first cache

  Indirection inputs;
  std::int64_t c, k;
  int width;
  const NormalizedInput* normalized;

  std::int64_t blocks(std::int64_t extent) const {
    return inputs.all_taps() * divide_up(c, extent) * divide_up(k, extent);
  }
  /// Parts of the pixels, each of which has a sum.
  std::int64_t parts() const {
    const std::int64_t most = std::max<std::int64_t>(1, inputs.target.pixels() / kLeastPixels);
    return std::min(divide_up(kTasks, blocks(kMost)), most);
  }
  /// Filters, and channels, of a task: as many as are worth packing together, or fewer to have tasks for all cores.
  std::int64_t extent() const {
    std::int64_t extent = kMost;
    while (extent > kColumns && parts() * blocks(extent) < kTasks) extent /= 2;
    return extent;
  }
  std::int64_t size() const { return k * inputs.all_taps() * c; }
  std::int64_t packed_floats() const { return 2 * extent() * kChunk; }
  std::int64_t scratch_floats() const { return width * packed_floats() + (parts() > 1 ? parts() * size() : 0); }

  void run(const float* x, const float* dy, float* dw, float* scratch) const {
    const std::int64_t filter_parts = divide_up(k, extent()), channel_parts = divide_up(c, extent());
    const std::int64_t tasks = blocks(extent()), pixel_parts = parts();
    float* const sums = pixel_parts > 1 ? scratch + width * packed_floats() : dw;
    parallel_for(width, pixel_parts * tasks, 1, [&](std::int64_t i, std::int64_t, int member) {
      const std::int64_t part = i / tasks, block = i % tasks % (filter_parts * channel_parts);
      const Task task{part_of(inputs.target.n * inputs.target.rows, 1, pixel_parts, part),
                      i % tasks / (filter_parts * channel_parts),
                      part_of(k, kRows, filter_parts, block / channel_parts),
                      part_of(c, kColumns, channel_parts, block % channel_parts)};
      run_task(task, x, dy, sums + part * size(), scratch + member * packed_floats());
    });
    if (pixel_parts > 1) {
      sum_parts(
          width, size(), pixel_parts, [&](std::int64_t part) { return sums + part * size(); }, dw);
    }
  }

  void run_task(const Task& task, const float* x, const float* dy, float* dw, float* scratch) const {
    const Grid &outputs = inputs.target, &pixels = inputs.source;
    const std::int64_t* const rows = &inputs.sources[0][static_cast<std::size_t>(task.tap / inputs.taps[1])];
    const std::int64_t* const columns = &inputs.sources[1][static_cast<std::size_t>(task.tap % inputs.taps[1])];
    const auto row_of = [&](std::int64_t p) { return rows[p * inputs.taps[0]]; };
    const auto column_of = [&](std::int64_t q) { return columns[q * inputs.taps[1]]; };
    std::int64_t begin = 0, end = outputs.columns;  // columns of outputs that see a pixel at this tap
    while (begin < end && column_of(begin) < 0) ++begin;
    while (begin < end && column_of(end - 1) < 0) --end;
    const std::int64_t stride = end - begin > 1 ? column_of(begin + 1) - column_of(begin) : 1;

    float* const gradients = scratch + extent() * kChunk;
    const std::int64_t size = std::max<std::int64_t>(1, task.rows.size * (end - begin));
    const std::int64_t chunk = divide_up(size, divide_up(size, kChunk));  // chunks of even size
    std::int64_t packed = 0;
    bool add = false;
    Next next{nullptr, stride * c, nullptr, k};
    const auto multiply_packed = [&] {
      multiply_chunk(task, scratch, gradients, packed, next, add, dw);
      packed = 0;
      add = true;
    };
    for (std::int64_t row = task.rows.begin; row < task.rows.begin + task.rows.size; ++row) {
      const std::int64_t source = row_of(row % outputs.rows);
      if (source < 0) continue;
      const std::int64_t first = (row / outputs.rows * pixels.rows + source) * pixels.columns;
      for (std::int64_t q = begin, count = 0; q < end; q += count) {
        count = std::min(end - q, chunk - packed);
        pack<kColumns>(x + (first + column_of(q)) * c + task.channels.begin, stride * c, count, task.channels.size,
                       scratch + packed * kColumns, kChunk * kColumns);
        if (normalized != nullptr) {
          normalize_packed(*normalized, task.channels.begin, task.channels.size, count, scratch + packed * kColumns,
                           kChunk * kColumns);
        }
        pack<kRows>(dy + (row * outputs.columns + q) * k + task.filters.begin, k, count, task.filters.size,
                    gradients + packed * kRows, kChunk * kRows);
        packed += count;
        next.x = x + (first + column_of(q) + count * stride) * c + task.channels.begin;
        next.dy = dy + (row * outputs.columns + q + count) * k + task.filters.begin;
        if (packed == chunk) multiply_packed();
      }
    }
    if (packed > 0 || !add) multiply_packed();
  }

  /// Multiplies packed pixels of dy by those of x. Meanwhile, the next pixels are fetched into the second cache:
  /// packing alone would wait for memory.
  void multiply_chunk(const Task& task, const float* packed, const float* gradients, std::int64_t pixels, Next next,
                      bool add, float* dw) const {
    const std::int64_t products = divide_up(task.channels.size, kColumns) * divide_up(task.filters.size, kRows);
    const std::int64_t share = divide_up(pixels, products);
    for (std::int64_t j = 0; j < task.channels.size; j += kColumns) {
      for (std::int64_t i = 0; i < task.filters.size; i += kRows) {
        Result result{{},
                      std::min(kRows, task.filters.size - i),
                      std::min(kColumns, task.channels.size - j),
                      add,
                      nullptr,
                      range_of(Activation::none)};
        Term term{packed + j * kChunk, {}};
        for (std::int64_t row = 0; row < result.rows; ++row) {
          const std::int64_t filter = task.filters.begin + i + row;
          term.a[row] = gradients + i * kChunk + row;
          result.y[row] = dw + (filter * inputs.all_taps() + task.tap) * c + task.channels.begin + j;
          const float* const below = result.y[row] + kRows * inputs.all_taps() * c;
          __builtin_prefetch(below, 1);
          __builtin_prefetch(below + kColumns / 2, 1);
        }
        next.fetch(share, task.channels.size, task.filters.size);
        multiply(&term, 1, pixels, kRows, result);
      }
    }
  }
};

}  // namespace

std::unique_ptr<Kernel> conv2d(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &filter = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  const Conv2dOptions& options = spec.attributes<ops::Conv2d>();
  const Panels panels{filter, Direction::forward};
  const ActivationRange range = range_of(options.activation);
  if (should_use(ops::CpuAlgorithm::pointwise, spec)) return pointwise(spec, panels, range);
  if (!should_use(ops::CpuAlgorithm::indirect, spec)) return nullptr;
  return std::make_unique<Convolution>(inputs_of(options, x, filter, y), spec, panels, range);
}

std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec) {
  const Shape &y = spec.inputs[0].shape, &filter = spec.inputs[1].shape, &x = spec.outputs[0].shape;
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardData>().options;
  const Panels panels{filter, Direction::backward};
  const ActivationRange range = range_of(Activation::none);
  if (should_use(ops::CpuAlgorithm::pointwise, spec)) return pointwise(spec, panels, range);
  if (!should_use(ops::CpuAlgorithm::indirect, spec)) return nullptr;
  return std::make_unique<Convolution>(outputs_of(options, x, filter, y), spec, panels, range);
}

std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec) {
  if (!should_use(ops::CpuAlgorithm::indirect, spec)) return nullptr;
  const Shape &x = spec.inputs[0].shape, &y = spec.inputs[1].shape, &filter = spec.outputs[0].shape;
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardFilter>().options;
  const bool pointwise =
      filter[1] == 1 && filter[2] == 1 && options.stride == Extent2d(1) && options.padding == Extent2d(0);
  if (pointwise && std::max(filter[0], filter[3]) > BackwardFilter::kMost) return pointwise_gradient(spec);
  const BackwardFilter gradient{inputs_of(options, x, filter, y), x[3], y[3], spec.width, spec.normalized};
  const auto floats = static_cast<std::size_t>(gradient.scratch_floats());
  return function_kernel(floats * sizeof(float), [gradient](auto inputs, auto outputs, void* workspace) {
    gradient.run(at<const float>(inputs, 0), at<const float>(inputs, 1), at<float>(outputs, 0),
                 static_cast<float*>(workspace));
  });
}

#else  // the products are written for one kind of processor

std::unique_ptr<Kernel> conv2d(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec&) { return nullptr; }

#endif

}  // namespace braid::cpu::indirect
