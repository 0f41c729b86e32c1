#include "ops/cpu/winograd.h"

#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/winograd_transforms.h"

// The output is cut into tiles of 4x4, for which a patch of 6x6 of the input is needed. With d a patch, w a filter and
// ⊙ the product element by element, one channel contributes (Lavin and Gray 2016, "Fast Algorithms for Convolutional
// Neural Networks", section 4)
//
//     y = Aᵀ [ (G w Gᵀ) ⊙ (Bᵀ d B) ] A            36 multiplications instead of 16·9 = 144.
//
// Summed over channels, each of the 36 points is a matrix product over all tiles, where nearly all the time goes:
//
//     forward           M[t,k] = Σ_c V[t,c]·U[c,k]     V = Bᵀ d B     U = G w Gᵀ     y  = Aᵀ M A
//     backward data     the same on dy, with the filter rotated and its channels exchanged
//     backward filter   M[k,c] = Σ_t D[t,k]·V[t,c]     V = Bᵀ d B     D = A dy Aᵀ    dw = Gᵀ M G
//
// The last line is the transpose of the first one as a linear map of w. Tiles and filters are worked through in chunks
// whose transforms stay in the cache.

namespace braid::cpu::winograd {

namespace {

constexpr std::int64_t kBlock = 32;             ///< tiles, and channels, that one task multiplies
constexpr std::int64_t kChunkFloats = 2 << 20;  ///< of one operand's transforms, to stay in the last cache level
constexpr std::int64_t kPadding = kLanes;       ///< between points, so that they do not share cache sets

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// How many items of `floats_each` go into a chunk: a multiple of kBlock, as even as possible over all chunks.
std::int64_t chunk_size(std::int64_t items, std::int64_t floats_each) {
  const std::int64_t most = std::max<std::int64_t>(kBlock, kChunkFloats / floats_each);
  const std::int64_t chunks = (items + most - 1) / most;
  return round_up((items + chunks - 1) / chunks, kBlock);
}

/// The channels a task computes at once: two vectors if they divide the channels, else one.
std::int64_t panel_width(std::int64_t channels) { return channels % (2 * kLanes) == 0 ? 2 * kLanes : kLanes; }

/// The problem seen as a forward convolution x → y; `filter` is [K,3,3,C].
struct Problem {
  Shape x, y, filter;
  Extent2d padding;
  int width;

  Tiling tiling() const { return {y[0], (y[1] + kOutput - 1) / kOutput, (y[2] + kOutput - 1) / kOutput}; }

  bool worthwhile(const Conv2dOptions& options, const KernelSpec& spec) const {
    const auto f32 = [](const ValueDesc& value) { return value.dtype == DType::f32; };
    const std::int64_t tiles = tiling().count();
    const bool applies = filter[1] == kFilter && filter[2] == kFilter && options.stride == Extent2d(1) &&
                         options.dilation == Extent2d(1) && options.groups == 1 && x[3] % kLanes == 0 &&
                         y[3] % kLanes == 0 && std::ranges::all_of(spec.inputs, f32) &&
                         std::ranges::all_of(spec.outputs, f32);
    // Tiles that hang over the edge waste work, and few tiles do not repay the transform of the filter.
    return applies && tiles >= kBlock / 2 && 2 * y[1] * y[2] * y[0] >= tiles * kOutput * kOutput && vectors_available();
  }
};

/// Forward, and backward data with the filter seen in the other direction.
class Convolution final : public Kernel {
 public:
  Convolution(const Problem& problem, FilterView view)
      : problem_(problem),
        view_(view),
        tiling_(problem.tiling()),
        c_(problem.x[3]),
        k_(problem.y[3]),
        panel_(panel_width(k_)),
        tile_chunk_(chunk_size(tiling_.count(), kPoints * c_)),
        filter_chunk_(std::min(k_, chunk_size(k_, kPoints * c_))) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(kPoints * (point_stride() + c_ * filter_chunk_)) * sizeof(float);
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    x_ = static_cast<const float*>(inputs[0]);
    w_ = static_cast<const float*>(inputs[1]);
    y_ = static_cast<float*>(outputs[0]);
    v_ = static_cast<float*>(workspace);
    u_ = v_ + kPoints * point_stride();
  }

  void launch(const LaunchContext&) override {
    const Image x{x_, problem_.x[1], problem_.x[2], c_};
    for (std::int64_t first = 0; first < tiling_.count(); first += tile_chunk_) {
      const std::int64_t tiles = std::min(tile_chunk_, tiling_.count() - first);
      parallel_for(problem_.width, tiles, kRows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          transform_patch<InputMap>(x, tiling_.at(first + t), problem_.padding, v_ + t * c_, point_stride());
        }
      });
      for (std::int64_t k = 0; k < k_; k += filter_chunk_) {
        const std::int64_t filters = std::min(filter_chunk_, k_ - k);
        if (first == 0 || filter_chunk_ < k_) transform_filters(k, filters);
        multiply_chunk(first, tiles, k, filters);
      }
    }
  }

 private:
  std::int64_t point_stride() const { return tile_chunk_ * c_ + kPadding; }

  /// U as panels [k / panel][point][c][panel].
  void transform_filters(std::int64_t first, std::int64_t filters) {
    const std::int64_t c_blocks = c_ / kLanes;
    parallel_for(problem_.width, filters / kLanes * c_blocks, 1, [&](std::int64_t task, std::int64_t) {
      const std::int64_t k = task / c_blocks * kLanes, c = task % c_blocks * kLanes;
      float* u = u_ + (k / panel_ * kPoints * c_ + c) * panel_ + k % panel_;
      transform_filter_block(w_, problem_.filter, view_, first + k, c, u, c_ * panel_, panel_);
    });
  }

  void multiply_chunk(std::int64_t first, std::int64_t tiles, std::int64_t first_filter, std::int64_t filters) {
    const std::int64_t blocks = (tiles + kBlock - 1) / kBlock;
    parallel_for(problem_.width, filters / panel_ * blocks, 1, [&](std::int64_t task, std::int64_t) {
      const std::int64_t panel = task / blocks, begin = task % blocks * kBlock;
      const std::int64_t count = std::min(kBlock, tiles - begin);
      alignas(64) float m[kPoints * (kBlock * 2 * kLanes + kPadding)];
      const std::int64_t m_stride = kBlock * panel_ + kPadding;
      for (std::int64_t point = 0; point < kPoints; ++point) {
        const float* v = v_ + point * point_stride() + begin * c_;
        const float* u = u_ + (panel * kPoints + point) * c_ * panel_;
        // The last rows may be beyond the last tile: they hold anything and nobody reads their results.
        for (std::int64_t t = 0; t < count; t += kRows) {
          multiply({v + t * c_, c_, 1}, {u, panel_}, {m + point * m_stride + t * panel_, panel_}, c_, panel_);
        }
      }
      for (std::int64_t t = 0; t < count; ++t) {
        for (std::int64_t lane = 0; lane < panel_; lane += kLanes) {
          store_output({y_ + first_filter + panel * panel_ + lane, problem_.y[1], problem_.y[2], k_},
                       tiling_.at(first + begin + t), m + t * panel_ + lane, m_stride);
        }
      }
    });
  }

  Problem problem_;
  FilterView view_;
  Tiling tiling_;
  std::int64_t c_, k_, panel_, tile_chunk_, filter_chunk_;
  const float *x_ = nullptr, *w_ = nullptr;
  float *y_ = nullptr, *v_ = nullptr, *u_ = nullptr;
};

class BackwardFilter final : public Kernel {
 public:
  explicit BackwardFilter(const Problem& problem)
      : problem_(problem),
        tiling_(problem.tiling()),
        c_(problem.x[3]),
        k_(problem.y[3]),
        panel_(panel_width(c_)),
        tile_chunk_(chunk_size(tiling_.count(), kPoints * std::max(c_, k_))),
        filter_chunk_(std::min(k_, chunk_size(k_, kPoints * c_))) {}

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(kPoints * (v_stride() + d_stride() + m_stride())) * sizeof(float);
  }
  void bind(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace) override {
    x_ = static_cast<const float*>(inputs[0]);
    dy_ = static_cast<const float*>(inputs[1]);
    dw_ = static_cast<float*>(outputs[0]);
    v_ = static_cast<float*>(workspace);
    d_ = v_ + kPoints * v_stride();
    m_ = d_ + kPoints * d_stride();
  }

  void launch(const LaunchContext&) override {
    const Image x{x_, problem_.x[1], problem_.x[2], c_};
    const Image dy{dy_, problem_.y[1], problem_.y[2], k_};
    for (std::int64_t first = 0; first < tiling_.count(); first += tile_chunk_) {
      const std::int64_t tiles = std::min(tile_chunk_, tiling_.count() - first);
      parallel_for(problem_.width, tiles, kRows, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t t = begin; t < end; ++t) {
          const Tile tile = tiling_.at(first + t);
          transform_patch<InputMap>(x, tile, problem_.padding, v_ + t * c_, v_stride());
          transform_patch<GradientMap>(dy, tile, 0, d_ + t * k_, d_stride());
        }
      });
      for (std::int64_t k = 0; k < k_; k += filter_chunk_) {
        const std::int64_t filters = std::min(filter_chunk_, k_ - k);
        multiply_chunk(tiles, k, filters);
        parallel_for(problem_.width, filters, 1, [&](std::int64_t filter, std::int64_t) {
          float* dw = dw_ + (k + filter) * kFilter * kFilter * c_;
          store_filter(m_ + filter * c_, m_stride(), c_, first > 0, dw);
        });
      }
    }
  }

 private:
  std::int64_t v_stride() const { return tile_chunk_ * c_ + kPadding; }
  std::int64_t d_stride() const { return tile_chunk_ * k_ + kPadding; }
  std::int64_t m_stride() const { return filter_chunk_ * c_ + kPadding; }

  void multiply_chunk(std::int64_t tiles, std::int64_t first_filter, std::int64_t filters) {
    const std::int64_t panels = c_ / panel_;
    parallel_for(problem_.width, kPoints * panels, 1, [&](std::int64_t task, std::int64_t) {
      const std::int64_t point = task / panels, c = task % panels * panel_;
      const float* v = v_ + point * v_stride() + c;
      const float* d = d_ + point * d_stride() + first_filter;
      float* m = m_ + point * m_stride() + c;
      for (std::int64_t k = 0; k < filters; k += kRows) {
        multiply({d + k, 1, k_}, {v, c_}, {m + k * c_, c_}, tiles, panel_);
      }
    });
  }

  Problem problem_;
  Tiling tiling_;
  std::int64_t c_, k_, panel_, tile_chunk_, filter_chunk_;
  const float *x_ = nullptr, *dy_ = nullptr;
  float *dw_ = nullptr, *v_ = nullptr, *d_ = nullptr, *m_ = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> conv2d(const KernelSpec& spec) {
  const Conv2dOptions& options = dynamic_cast<const ops::Conv2d&>(spec.op).options();
  const Problem problem{spec.inputs[0].shape, spec.outputs[0].shape, spec.inputs[1].shape, options.padding, spec.width};
  if (!problem.worthwhile(options, spec)) return nullptr;
  return std::make_unique<Convolution>(problem, FilterView::straight);
}

std::unique_ptr<Kernel> conv2d_backward_data(const KernelSpec& spec) {
  const Conv2dOptions& options = dynamic_cast<const ops::Conv2dBackwardData&>(spec.op).options();
  const Extent2d padding(kFilter - 1 - options.padding.h, kFilter - 1 - options.padding.w);
  const Problem problem{spec.inputs[0].shape, spec.outputs[0].shape, spec.inputs[1].shape, padding, spec.width};
  if (!problem.worthwhile(options, spec)) return nullptr;
  return std::make_unique<Convolution>(problem, FilterView::rotated);
}

std::unique_ptr<Kernel> conv2d_backward_filter(const KernelSpec& spec) {
  const Conv2dOptions& options = dynamic_cast<const ops::Conv2dBackwardFilter&>(spec.op).options();
  const Problem problem{spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape, options.padding, spec.width};
  if (!problem.worthwhile(options, spec)) return nullptr;
  return std::make_unique<BackwardFilter>(problem);
}

}  // namespace braid::cpu::winograd
