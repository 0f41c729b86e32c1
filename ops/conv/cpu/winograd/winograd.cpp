#include <algorithm>

#include "core/base/align.h"
#include "ops/conv/conv2d.h"
#include "ops/conv/cpu/fast_kernels.h"
#include "ops/conv/cpu/winograd/transforms.h"
#include "ops/conv/cpu_algorithm.h"
#include "ops/kernels/cpu/kept_filter.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

// The output is cut into tiles of 4x4; each needs a patch of 6x6 of the input. With d a patch, w a filter and ⊙ the
// product element by element, one channel contributes (Lavin and Gray 2016, "Fast Algorithms for Convolutional Neural
// Networks", section 4)
//
//     y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ d B) ] A            36 multiplications instead of 16·9 = 144.
//
// Summed over channels, each of the 36 points is a matrix product over all tiles, where most of the time goes:
//
//     forward           M[t,k] = Σ_c V[t,c]·U[c,k]     V = Bᵀ d B     U = G w Gᵀ      y  = Aᵀ M A
//     backward data     the same on dy, with the filter rotated and its two channels exchanged
//     backward filter   M[k,c] = Σ_t D[t,k]·V[t,c]     V = Bᵀ d B     D = A dy Aᵀ     dw = Gᵀ M G
//
// For given d, the first line is a linear map of w and the last one is its transpose. Transforms are much larger than
// their sources, so they are made in chunks that stay in the caches until they are used.

namespace braid::cpu::winograd {

#if defined(__x86_64__)

namespace {

constexpr std::int64_t kBlock = 32;              ///< tiles, filters or channels that are multiplied at once
constexpr std::int64_t kSharedFloats = 2 << 20;  ///< floats of transforms that the last cache level keeps
constexpr std::int64_t kKeptFloats = 8 << 20;    ///< floats of a filter's transform that is kept between launches
constexpr std::int64_t kPadding = kLanes;        ///< between points, so that they do not share cache sets
constexpr std::int64_t kBlockStride = kBlock * kBlock + kPadding;  ///< between points of a product of two blocks

/// How many tiles make a chunk of at most kSharedFloats: whole blocks, and chunks of even size.
std::int64_t chunk_of(std::int64_t tiles, std::int64_t floats_per_tile) {
  const std::int64_t most = std::max(kBlock, kSharedFloats / floats_per_tile);
  return align_up(divide_up(tiles, divide_up(tiles, most)), kBlock);
}

/// A convolution x → y, or the one on gradients that has its shapes. The filter is [K,3,3,C].
struct Problem {
  Shape x, y, filter;
  Extent2d padding;
  int width;
  ActivationRange range = range_of(Activation::none);  ///< after the bias
  const NormalizedInput* normalized = nullptr;         ///< KernelSpec::normalized

  Tiling tiling() const { return {y[0], divide_up(y[1], kOutput), divide_up(y[2], kOutput)}; }
};

/// Floating-point operations of the matrix products; transforms take few.
double product_flops(const Problem& problem) {
  return 2.0 * kPoints * static_cast<double>(problem.tiling().count() * problem.x[3] * problem.y[3]);
}

/// Forward, or backward data with the filter rotated and its channels exchanged. The smaller operand is transformed as
/// a whole, for all cores to share. The other one is transformed piece by piece, by the core that multiplies the piece.
class Convolution final : public Kernel {
 public:
  Convolution(const Problem& problem, FilterView view, bool constant_filter = false)
      : problem_(problem),
        view_(view),
        tiling_(problem.tiling()),
        c_(problem.x[3]),
        k_(problem.y[3]),
        filters_shared_(kPoints * c_ * k_ <= (constant_filter ? kKeptFloats : kSharedFloats)),
        keeps_filter_(constant_filter && filters_shared_),
        tile_chunk_(filters_shared_ ? kBlock : chunk_of(tiling_.count(), kPoints * c_)) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>((keeps_filter_ ? 0 : shared_floats()) + problem_.width * own_floats()) *
           sizeof(float);
  }
  double flops() const override { return product_flops(problem_); }
  bool keeps_filter() const override { return keeps_filter_; }
  void keep_filter(std::uint64_t version) override {
    kept_->update(version, [&] { transform_shared_filters(); });
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    x_ = static_cast<const float*>(inputs[0]);
    w_ = static_cast<const float*>(inputs[1]);
    bias_ = inputs.size() == 3 ? static_cast<const float*>(inputs[2]) : nullptr;
    y_ = static_cast<float*>(outputs[0]);
    shared_ = own_ = static_cast<float*>(workspace);
    if (keeps_filter_) {
      const std::string layout = message("Winograd ", static_cast<int>(view_), ' ', problem_.filter);
      kept_ = KeptFilter::of(w_, layout, static_cast<std::size_t>(shared_floats()) * sizeof(float));
      shared_ = static_cast<float*>(kept_->data());
    } else {
      own_ += shared_floats();
    }
  }

  void launch(const LaunchContext&) override {
    if (filters_shared_) {
      share_filters();
    } else {
      for (std::int64_t first = 0; first < tiling_.count(); first += tile_chunk_) share_tiles(first);
    }
  }

 private:
  std::int64_t point_stride() const { return tile_chunk_ * c_ + kPadding; }
  std::int64_t tile_floats() const { return kPoints * point_stride(); }  ///< V of a chunk of tiles
  std::int64_t filter_floats() const { return kPoints * c_; }            ///< U of a filter
  std::int64_t shared_floats() const { return filters_shared_ ? k_ * filter_floats() : tile_floats(); }
  std::int64_t own_floats() const { return filters_shared_ ? tile_floats() : kBlock * filter_floats(); }

  void transform_shared_filters() {
    parallel_for(problem_.width, k_, kLanes, [&](std::int64_t k, std::int64_t) {
      const std::int64_t first = k / kBlock * kBlock;
      transform_filters(k, shared_ + first * filter_floats() + k % kBlock, panel_of(first));
    });
  }

  void share_filters() {
    if (!keeps_filter_) transform_shared_filters();
    const std::int64_t share = align_up(divide_up(tiling_.count(), problem_.width), kRows);
    parallel_for(problem_.width, tiling_.count(), std::min(kBlock, share),
                 [&](std::int64_t begin, std::int64_t end, int member) {
                   float* v = own_ + member * own_floats();
                   for (std::int64_t t = begin; t < end; ++t) transform_tile(t, v + (t - begin) * c_);
                   for (std::int64_t k = 0; k < k_; k += kBlock) {
                     multiply_block(v, shared_ + k * filter_floats(), begin, end - begin, k);
                   }
                 });
  }

  void share_tiles(std::int64_t first) {
    const std::int64_t last = std::min(first + tile_chunk_, tiling_.count());
    parallel_for(problem_.width, last - first, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) transform_tile(first + t, shared_ + t * c_);
    });
    parallel_for(problem_.width, k_, kBlock, [&](std::int64_t k, std::int64_t end, int member) {
      float* u = own_ + member * own_floats();
      for (std::int64_t i = k; i < end; i += kLanes) transform_filters(i, u + i - k, panel_of(k));
      for (std::int64_t t = first; t < last; t += kBlock) {
        multiply_block(shared_ + (t - first) * c_, u, t, std::min(kBlock, last - t), k);
      }
    });
  }

  void transform_tile(std::int64_t tile, float* v) {
    const Image x{x_, problem_.x[1], problem_.x[2], c_};
    transform_patch<InputMap>(x, tiling_.at(tile), problem_.padding, {v, point_stride(), c_, 0}, problem_.normalized);
  }

  /// How many filters lie side by side in U from this one on: a block, or half of one.
  std::int64_t panel_of(std::int64_t first_filter) const { return std::min(kBlock, k_ - first_filter); }

  /// 16 filters into their panel [point][c][panel].
  void transform_filters(std::int64_t first, float* u, std::int64_t panel) {
    for (std::int64_t c = 0; c < c_; c += kLanes) {
      transform_filter_block(w_, problem_.filter, view_, first, c, u + c * panel, c_ * panel, panel);
    }
  }

  /// A block of tiles by a panel of filters.
  void multiply_block(const float* v, const float* u, std::int64_t first_tile, std::int64_t tiles,
                      std::int64_t first_filter) {
    alignas(64) float m[kPoints * kBlockStride];
    const std::int64_t panel = panel_of(first_filter);
    for (std::int64_t point = 0; point < kPoints; ++point) {
      // The last rows may be beyond the last tile: their contents are arbitrary, and their results are not read.
      for (std::int64_t t = 0; t < tiles; t += kRows) {
        multiply({v + point * point_stride() + t * c_, c_, 1}, {u + point * c_ * panel, panel},
                 {m + point * kBlockStride + t * kBlock, kBlock}, c_, panel);
      }
    }
    for (std::int64_t t = 0; t < tiles; ++t) {
      for (std::int64_t lane = 0; lane < panel; lane += kLanes) {
        const std::int64_t k = first_filter + lane;
        const Images<float> y{y_ + k, problem_.y[1], problem_.y[2], k_};
        const float* bias = bias_ == nullptr ? nullptr : bias_ + k;
        store_output(y, tiling_.at(first_tile + t), m + t * kBlock + lane, kBlockStride, bias, problem_.range);
      }
    }
  }

  Problem problem_;
  FilterView view_;
  Tiling tiling_;
  std::int64_t c_, k_;
  bool filters_shared_, keeps_filter_;
  std::shared_ptr<KeptFilter> kept_;  // once bound, if it keeps the filter
  std::int64_t tile_chunk_;
  const float *x_ = nullptr, *w_ = nullptr, *bias_ = nullptr;
  float *y_ = nullptr, *shared_ = nullptr, *own_ = nullptr;
};

/// If the tiles are many, every core sums over some of them. If not, every core computes some blocks of the filter.
class BackwardFilter final : public Kernel {
 public:
  explicit BackwardFilter(const Problem& problem)
      : problem_(problem),
        tiling_(problem.tiling()),
        c_(problem.x[3]),
        k_(problem.y[3]),
        in_parts_(c_ * k_ <= 64 * 64 && tiling_.count() >= kParts * kBlock),
        tile_chunk_(in_parts_ ? 2 * kBlock : chunk_of(tiling_.count(), kPoints * 2 * std::max(c_, k_))) {}

  std::size_t workspace_bytes() const override {
    const std::int64_t floats = chunks() * chunk_floats() + (in_parts_ ? kParts * problem_.filter.size() : 0);
    return static_cast<std::size_t>(floats) * sizeof(float);
  }
  double flops() const override { return product_flops(problem_); }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    x_ = static_cast<const float*>(inputs[0]);
    dy_ = static_cast<const float*>(inputs[1]);
    dw_ = static_cast<float*>(outputs[0]);
    points_ = static_cast<float*>(workspace);
    sums_ = points_ + chunks() * chunk_floats();
  }

  void launch(const LaunchContext&) override {
    if (in_parts_) {
      sum_in_parts();
    } else {
      for (std::int64_t first = 0; first < tiling_.count(); first += tile_chunk_) share_tiles(first);
    }
  }

 private:
  static constexpr std::int64_t kParts = 16;  // not the width, on which no result may depend

  std::int64_t v_stride() const { return tile_chunk_ * align_up(c_, kBlock) + kPadding; }
  std::int64_t d_stride() const { return tile_chunk_ * align_up(k_, kBlock) + kPadding; }
  std::int64_t chunk_floats() const { return kPoints * (v_stride() + d_stride()); }
  std::int64_t chunks() const { return in_parts_ ? problem_.width : 1; }  ///< chunks in work at once

  void sum_in_parts() {
    const std::int64_t part_tiles = divide_up(tiling_.count(), kParts), size = problem_.filter.size();
    parallel_for(problem_.width, tiling_.count(), part_tiles, [&](std::int64_t begin, std::int64_t end, int member) {
      float* v = points_ + member * chunk_floats();
      for (std::int64_t first = begin; first < end; first += tile_chunk_) {
        const std::int64_t tiles = std::min(tile_chunk_, end - first);
        for (std::int64_t t = 0; t < tiles; ++t) transform_tile(first + t, v, t);
        for (std::int64_t k = 0; k < k_; k += kBlock) {
          for (std::int64_t c = 0; c < c_; c += kBlock) {
            multiply_block(v, tiles, k, c, first > begin, sums_ + begin / part_tiles * size);
          }
        }
      }
    });
    const std::int64_t parts = divide_up(tiling_.count(), part_tiles);
    sum_parts(
        problem_.width, size, parts, [&](std::int64_t part) { return sums_ + part * size; }, dw_);
  }

  void share_tiles(std::int64_t first) {
    const std::int64_t tiles = std::min(tile_chunk_, tiling_.count() - first);
    parallel_for(problem_.width, tiles, kRows, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) transform_tile(first + t, points_, t);
    });
    const std::int64_t blocks = divide_up(k_, kBlock);
    parallel_for(problem_.width, divide_up(c_, kBlock) * blocks, 1, [&](std::int64_t task, std::int64_t) {
      multiply_block(points_, tiles, task % blocks * kBlock, task / blocks * kBlock, first > 0, dw_);
    });
  }

  /// V and D of one tile, as the t-th of its chunk.
  void transform_tile(std::int64_t tile, float* v, std::int64_t t) {
    const Image x{x_, problem_.x[1], problem_.x[2], c_}, dy{dy_, problem_.y[1], problem_.y[2], k_};
    const auto points = [&](float* data, std::int64_t stride) {
      return Points{data + t * kBlock, stride, kBlock, tile_chunk_ * kBlock};
    };
    transform_patch<InputMap>(x, tiling_.at(tile), problem_.padding, points(v, v_stride()), problem_.normalized);
    transform_patch<GradientMap>(dy, tiling_.at(tile), 0, points(v + kPoints * v_stride(), d_stride()));
  }

  /// Sets a block of a filter to the contribution of a chunk of tiles, or adds it.
  void multiply_block(const float* v, std::int64_t tiles, std::int64_t k, std::int64_t c, bool add, float* dw) {
    alignas(64) float m[kPoints * kBlockStride];
    const float* d = v + kPoints * v_stride() + k * tile_chunk_;
    v += c * tile_chunk_;
    const std::int64_t filters = std::min(kBlock, k_ - k), channels = std::min(kBlock, c_ - c);
    for (std::int64_t point = 0; point < kPoints; ++point) {
      for (std::int64_t i = 0; i < filters; i += kRows) {
        multiply({d + point * d_stride() + i, 1, kBlock}, {v + point * v_stride(), kBlock},
                 {m + point * kBlockStride + i * kBlock, kBlock}, tiles, channels);
      }
    }
    for (std::int64_t i = 0; i < filters; ++i) {
      for (std::int64_t j = 0; j < channels; j += kLanes) {
        store_filter(m + i * kBlock + j, kBlockStride, c_, add, dw + (k + i) * kFilter * kFilter * c_ + c + j);
      }
    }
  }

  Problem problem_;
  Tiling tiling_;
  std::int64_t c_, k_;
  bool in_parts_;
  std::int64_t tile_chunk_;
  const float *x_ = nullptr, *dy_ = nullptr;
  float *dw_ = nullptr, *points_ = nullptr, *sums_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> conv2d(const KernelSpec& spec) {
  if (!should_use(ops::CpuAlgorithm::winograd, spec)) return nullptr;
  const Conv2dOptions& options = spec.attributes<ops::Conv2d>();
  const Problem problem{spec.inputs[0].shape, spec.outputs[0].shape,        spec.inputs[1].shape, options.padding,
                        spec.width,           range_of(options.activation), spec.normalized};
  return std::make_unique<Convolution>(problem, FilterView::straight, spec.constant_filter);
}

std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec) {
  if (!should_use(ops::CpuAlgorithm::winograd, spec)) return nullptr;
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardData>().options;
  const Extent2d padding(kFilter - 1 - options.padding.h, kFilter - 1 - options.padding.w);
  const Problem problem{spec.inputs[0].shape, spec.outputs[0].shape, spec.inputs[1].shape, padding, spec.width};
  return std::make_unique<Convolution>(problem, FilterView::rotated);
}

std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec) {
  if (!should_use(ops::CpuAlgorithm::winograd, spec)) return nullptr;
  const Conv2dOptions& options = spec.attributes<ops::Conv2dBackwardFilter>().options;
  const Problem problem{.x = spec.inputs[0].shape,
                        .y = spec.inputs[1].shape,
                        .filter = spec.outputs[0].shape,
                        .padding = options.padding,
                        .width = spec.width,
                        .normalized = spec.normalized};
  return std::make_unique<BackwardFilter>(problem);
}

#else  // the transforms are written for one kind of processor

std::unique_ptr<Kernel> conv2d(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec&) { return nullptr; }

#endif

}  // namespace braid::cpu::winograd
