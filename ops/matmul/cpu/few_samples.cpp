#include "ops/matmul/cpu/few_samples.h"

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/target_clones.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/multiply_add.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <numeric>

// Products with a matrix of weights [K,C], whose rows are read, or written, once, one after another. What belongs to
// the samples is packed first: rows that lie a multiple of 4 KiB apart would evict each other from the first cache.

namespace braid::cpu::few_samples {

namespace {

constexpr std::int64_t kLanes = 16;   ///< of a vector
constexpr std::int64_t kRows = 8;     ///< rows of a tile, whose results are in registers
constexpr std::int64_t kVectors = 3;  ///< vectors of each row
constexpr std::int64_t kColumns = kVectors * kLanes;
constexpr std::int64_t kAhead = 512;  ///< weights that are fetched ahead of those in use, in each row

/// Products that a tile adds up: y[i,v] = Σ_d a[i,d]·b[d,v], for rows i and vectors v.
struct Tile {
  std::int64_t rows = 0, columns = 0, depth = 0;
  const float* a = nullptr;
  std::int64_t a_row = 0, a_step = 0;
  const float* b = nullptr;
  std::int64_t b_step = 0, b_vector = 0;
  float* y = nullptr;
  std::int64_t y_row = 0, y_vector = 0;
  bool add = false;  ///< to y
};

}  // namespace

BRAID_BEGIN_AVX512

namespace {

using Vector = __m512;

__mmask16 lanes_of(std::int64_t columns) {
  return static_cast<__mmask16>((1u << std::clamp<std::int64_t>(columns, 0, kLanes)) - 1);
}

/// A matrix [n,columns] → [columns / 16][n][16], where columns beyond the last are zero.
void pack(const float* from, std::int64_t n, std::int64_t columns, float* to) {
  for (std::int64_t j = 0; j < columns; j += kLanes) {
    for (std::int64_t s = 0; s < n; ++s, to += kLanes) {
      _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(lanes_of(columns - j), from + s * columns + j));
    }
  }
}

/// The inverse for columns [begin, end), of a sum of parts that are `size` apart.
void unpack_sum(const float* from, std::int64_t parts, std::int64_t size, std::int64_t n, std::int64_t columns,
                std::int64_t begin, std::int64_t end, float* to) {
  from += begin * n;
  for (std::int64_t j = begin; j < end; j += kLanes) {
    for (std::int64_t s = 0; s < n; ++s, from += kLanes) {
      Vector sum = _mm512_loadu_ps(from);
      for (std::int64_t part = 1; part < parts; ++part) sum += _mm512_loadu_ps(from + part * size);
      _mm512_mask_storeu_ps(to + s * columns + j, lanes_of(columns - j), sum);
    }
  }
}

/// y[s,f] = x[s]·w[f] + bias[f] for rows of w [.,c], and of x, which is packed. A row of y has k elements.
template <int kSamples, int kCount>
void multiply_rows(const float* x, const float* w, std::int64_t c, const float* bias, float* y, std::int64_t k) {
  Vector sum[kCount][kSamples] = {};
  for (std::int64_t j = 0; j < c; j += kLanes, x += kSamples * kLanes) {
    const __mmask16 lanes = lanes_of(c - j);
    Vector filter[kCount];
#pragma GCC unroll 3
    for (int f = 0; f < kCount; ++f) {
      filter[f] = _mm512_maskz_loadu_ps(lanes, w + f * c + j);
      __builtin_prefetch(w + f * c + j + kAhead);
    }
#pragma GCC unroll 8
    for (int s = 0; s < kSamples; ++s) {
      const Vector sample = _mm512_loadu_ps(x + s * kLanes);
#pragma GCC unroll 3
      for (int f = 0; f < kCount; ++f) sum[f][s] = _mm512_fmadd_ps(filter[f], sample, sum[f][s]);
    }
  }
#pragma GCC unroll 3
  for (int f = 0; f < kCount; ++f) {
#pragma GCC unroll 8
    for (int s = 0; s < kSamples; ++s) {
      float terms[kLanes];
      _mm512_storeu_ps(terms, sum[f][s]);
      y[s * k + f] = std::accumulate(terms, terms + kLanes, bias == nullptr ? 0 : bias[f]);
    }
  }
}

template <int kHeight>
void multiply_tile(const Tile& tile) {
  Vector sum[kHeight][kVectors] = {};
  __mmask16 lanes[kVectors];
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
    lanes[v] = lanes_of(tile.columns - v * kLanes);
    if (!tile.add) continue;
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i)
      sum[i][v] = _mm512_maskz_loadu_ps(lanes[v], tile.y + i * tile.y_row + v * tile.y_vector);
  }
  const bool fetch = tile.b_vector == kLanes;  // rows of weights, not what is packed
  const float *a = tile.a, *b = tile.b;
  for (std::int64_t d = 0; d < tile.depth; ++d, a += tile.a_step, b += tile.b_step) {
    Vector right[kVectors];
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      right[v] = _mm512_maskz_loadu_ps(lanes[v], b + v * tile.b_vector);
      if (fetch) __builtin_prefetch(b + v * tile.b_vector + kAhead);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      const Vector left = _mm512_set1_ps(a[i * tile.a_row]);
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(left, right[v], sum[i][v]);
    }
  }
#pragma GCC unroll 3
  for (int v = 0; v < kVectors; ++v) {
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i)
      _mm512_mask_storeu_ps(tile.y + i * tile.y_row + v * tile.y_vector, lanes[v], sum[i][v]);
  }
}

}  // namespace

BRAID_END_AVX512

namespace {

/// Calls f.operator()<count>() for a count from 1 to kMost, the largest if it is more.
template <int kMost, class F>
void with_constant(std::int64_t count, const F& f) {
  if constexpr (kMost > 1) {
    if (count < kMost) return with_constant<kMost - 1>(count, f);
  }
  f.template operator()<kMost>();
}

void multiply(const Tile& tile) {
  with_constant<kRows>(tile.rows, [&]<int kHeight>() { multiply_tile<kHeight>(tile); });
}

/// x [N,C] → y [N,K], and the gradients.
struct Layer {
  static constexpr std::int64_t kFilters = 3;        ///< rows of weights that all samples are multiplied by at once
  static constexpr std::int64_t kParts = 16;         ///< of the sums in a gradient of x
  static constexpr std::int64_t kPartDepth = kRows;  ///< rows of weights that are added to a part at once

  std::int64_t n, k, c;
  int width;

  std::int64_t packed_floats() const { return divide_up(c, kLanes) * kLanes * n; }

  void forward(const float* x, const float* w, const float* bias, float* y, float* packed) const {
    pack(x, n, c, packed);
    parallel_for(width, k, 8 * kFilters, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t f = begin; f < end; f += kFilters) {
        with_constant<kRows>(n, [&]<int kSamples>() {
          with_constant<kFilters>(end - f, [&]<int kCount>() {
            multiply_rows<kSamples, kCount>(packed, w + f * c, c, bias == nullptr ? nullptr : bias + f, y + f, k);
          });
        });
      }
    });
  }

  void backward_data(const float* dy, const float* w, float* dx, float* scratch) const {
    float *gradients = scratch, *sums = scratch + n * k;
    transpose(width, n, k, dy, gradients);
    parallel_for(width, kParts, 1, [=, this](std::int64_t i, std::int64_t) {
      const Part part = part_of(k, 1, kParts, i);
      Tile tile{
          .rows = n, .a_row = 1, .a_step = n, .b_step = c, .b_vector = kLanes, .y_row = kLanes, .y_vector = n * kLanes};
      for (std::int64_t f = 0; f < part.size; f += kPartDepth) {
        tile.depth = std::min(kPartDepth, part.size - f);
        tile.add = f > 0;
        tile.a = gradients + (part.begin + f) * n;
        for (std::int64_t j = 0; j < c; j += kColumns) {
          tile.columns = c - j;
          tile.b = w + (part.begin + f) * c + j;
          tile.y = sums + i * packed_floats() + j * n;
          multiply(tile);
        }
      }
    });
    parallel_for(width, c, 16 * kLanes, [=, this](std::int64_t begin, std::int64_t end) {
      unpack_sum(sums, kParts, packed_floats(), n, c, begin, end, dx);
    });
  }

  void backward_filter(const float* x, const float* dy, float* dw, float* scratch) const {
    float *gradients = scratch, *packed = scratch + n * k;
    transpose(width, n, k, dy, gradients);
    pack(x, n, c, packed);
    parallel_for(width, k, kRows, [=, this](std::int64_t begin, std::int64_t end) {
      Tile tile{.rows = end - begin,
                .depth = n,
                .a = gradients + begin * n,
                .a_row = n,
                .a_step = 1,
                .b_step = kLanes,
                .b_vector = n * kLanes,
                .y_row = c,
                .y_vector = kLanes};
      for (std::int64_t j = 0; j < c; j += kColumns) {
        tile.columns = c - j;
        tile.b = packed + j * n;
        tile.y = dw + begin * c + j;
        multiply(tile);
      }
    });
  }
};

/// A kernel that calls run(layer, inputs, outputs, scratch).
template <class Run>
auto layer_kernel(const Layer& layer, std::int64_t scratch_floats, const Run& run) {
  return function_kernel(
      static_cast<std::size_t>(scratch_floats) * sizeof(float),
      [=](auto inputs, auto outputs, void* scratch) { run(layer, inputs, outputs, static_cast<float*>(scratch)); });
}

}  // namespace

std::unique_ptr<Kernel> linear(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  if (!has_avx512() || x[0] > kRows) return nullptr;
  const Layer layer{x[0], w[0], w[1], spec.width};
  return layer_kernel(layer, layer.packed_floats(), [](const Layer& of, auto inputs, auto outputs, float* scratch) {
    const float* const bias = inputs.size() == 3 ? at<const float>(inputs, 2) : nullptr;
    of.forward(at<const float>(inputs, 0), at<const float>(inputs, 1), bias, at<float>(outputs, 0), scratch);
  });
}

std::unique_ptr<Kernel> linear_backward_data(const KernelSpec& spec) {
  constexpr std::int64_t kLeastWeights = 1 << 22;  // fewer may be in a cache
  const Shape &dy = spec.inputs[0].shape, &w = spec.inputs[1].shape;
  if (!has_avx512() || dy[0] > kRows || w.size() < kLeastWeights) return nullptr;
  const Layer layer{dy[0], w[0], w[1], spec.width};
  const std::int64_t floats = dy.size() + Layer::kParts * layer.packed_floats();
  return layer_kernel(layer, floats, [](const Layer& of, auto inputs, auto outputs, float* scratch) {
    of.backward_data(at<const float>(inputs, 0), at<const float>(inputs, 1), at<float>(outputs, 0), scratch);
  });
}

std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec& spec) {
  constexpr std::int64_t kMostSamples = 32;
  const Shape &x = spec.inputs[0].shape, &dy = spec.inputs[1].shape;
  if (!has_avx512() || x[0] > kMostSamples) return nullptr;
  const Layer layer{x[0], dy[1], x[1], spec.width};
  return layer_kernel(
      layer, dy.size() + layer.packed_floats(), [](const Layer& of, auto inputs, auto outputs, float* scratch) {
        of.backward_filter(at<const float>(inputs, 0), at<const float>(inputs, 1), at<float>(outputs, 0), scratch);
      });
}

}  // namespace braid::cpu::few_samples

#else  // the products are written for one kind of processor

namespace braid::cpu::few_samples {
std::unique_ptr<Kernel> linear(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> linear_backward_data(const KernelSpec&) { return nullptr; }
std::unique_ptr<Kernel> linear_backward_filter(const KernelSpec&) { return nullptr; }
}  // namespace braid::cpu::few_samples

#endif
