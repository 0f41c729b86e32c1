#include "ops/matmul/cpu/few_samples.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include <algorithm>
#include <numeric>

#include "ops/conv/cpu/indirect/products.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/cpu/target_clones.h"
#include "ops/kernels/function_kernel.h"
#include "ops/matmul/cpu/multiply_add.h"

// Products with a matrix of weights [K,C], whose rows are read, or written, once, one after another. What belongs to
// the samples is packed first: rows that lie a multiple of 4 KiB apart would evict each other from the first cache.

BRAID_BEGIN_AVX512

namespace braid::cpu::few_samples {

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kAhead = 512;  ///< weights that are fetched ahead of those in use, in each row

/// y[s,f] = x[s]·w[f] + bias[f] for rows of w [.,c], and of x, which is packed in panels of kLanes columns. A row of y
/// has k elements.
template <int kSamples, int kFilters>
void multiply_rows(const float* x, const float* w, std::int64_t c, const float* bias, float* y, std::int64_t k) {
  __m512 sum[kFilters][kSamples] = {};
  for (std::int64_t j = 0; j < c; j += kLanes, x += kSamples * kLanes) {
    const auto lanes = static_cast<__mmask16>((1u << std::min(c - j, kLanes)) - 1);
    __m512 filter[kFilters];
#pragma GCC unroll 3
    for (int f = 0; f < kFilters; ++f) {
      filter[f] = _mm512_maskz_loadu_ps(lanes, w + f * c + j);
      __builtin_prefetch(w + f * c + j + kAhead);
    }
#pragma GCC unroll 8
    for (int s = 0; s < kSamples; ++s) {
      const __m512 sample = _mm512_loadu_ps(x + s * kLanes);
#pragma GCC unroll 3
      for (int f = 0; f < kFilters; ++f) sum[f][s] = _mm512_fmadd_ps(filter[f], sample, sum[f][s]);
    }
  }
#pragma GCC unroll 3
  for (int f = 0; f < kFilters; ++f) {
#pragma GCC unroll 8
    for (int s = 0; s < kSamples; ++s) {
      float terms[kLanes];
      _mm512_storeu_ps(terms, sum[f][s]);
      y[s * k + f] = std::accumulate(terms, terms + kLanes, bias == nullptr ? 0 : bias[f]);
    }
  }
}

}  // namespace

}  // namespace braid::cpu::few_samples

BRAID_END_AVX512

namespace braid::cpu::few_samples {

namespace {

using indirect::kColumns;
using indirect::kRows;

/// x [N,C] → y [N,K], and the gradients.
struct Layer {
  static constexpr std::int64_t kFilters = 3;  ///< rows of weights that all samples are multiplied by at once
  static constexpr std::int64_t kParts = 16;   ///< of the sums in a gradient of x, if there are as many rows of weights

  std::int64_t n, k, c;
  int width;

  std::int64_t parts() const { return std::min(kParts, k); }
  std::int64_t packed_floats() const { return divide_up(c, kColumns) * kColumns * n; }

  void forward(const float* x, const float* w, const float* bias, float* y, float* packed) const {
    indirect::pack<kLanes>(x, c, n, c, packed, n * kLanes);
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

  /// Sums of parts of the rows of weights, eight rows at a time, which then are added.
  void backward_data(const float* dy, const float* w, float* dx, float* scratch) const {
    float *gradients = scratch, *sums = scratch + n * k, *total = sums + parts() * packed_floats();
    transpose(width, n, k, dy, gradients);
    parallel_for(width, parts(), 1, [=, this](std::int64_t i, std::int64_t) {
      const Part part = part_of(k, 1, parts(), i);
      for (std::int64_t f = 0; f < part.size; f += kRows) {
        const float* const weights = w + (part.begin + f) * c;
        const std::int64_t depth = std::min(kRows, part.size - f);
        for (std::int64_t j = 0; j < c; j += kColumns) {
          indirect::Term term{weights + j, {}, c};
          indirect::Result result{{}, n, std::min(kColumns, c - j), f > 0, nullptr, range_of(Activation::none)};
          for (std::int64_t s = 0; s < n; ++s) {
            term.a[s] = gradients + (part.begin + f) * n + s;
            result.y[s] = sums + i * packed_floats() + j * n + s * kColumns;
          }
          for (std::int64_t row = 0; row < depth; ++row) {
            __builtin_prefetch(term.b + row * c + kAhead);
            __builtin_prefetch(term.b + row * c + kAhead + kLanes);
          }
          indirect::multiply(&term, 1, depth, n, result);
        }
      }
    });
    sum_parts(
        width, packed_floats(), parts(), [=, this](std::int64_t part) { return sums + part * packed_floats(); }, total);
    for (std::int64_t j = 0; j < c; j += kColumns) {
      for (std::int64_t s = 0; s < n; ++s) {
        std::copy_n(total + j * n + s * kColumns, std::min(kColumns, c - j), dx + s * c + j);
      }
    }
  }

  void backward_filter(const float* x, const float* dy, float* dw, float* scratch) const {
    float *gradients = scratch, *packed = scratch + n * k;
    transpose(width, n, k, dy, gradients);
    indirect::pack<kColumns>(x, c, n, c, packed, n * kColumns);
    parallel_for(width, k, kRows, [=, this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t j = 0; j < c; j += kColumns) {
        indirect::Term term{packed + j * n, {}};
        indirect::Result result{{}, end - begin, std::min(kColumns, c - j), false, nullptr, range_of(Activation::none)};
        for (std::int64_t row = 0; row < end - begin; ++row) {
          term.a[row] = gradients + (begin + row) * n;
          result.y[row] = dw + (begin + row) * c + j;
        }
        indirect::multiply(&term, 1, n, 1, result);
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
  const std::int64_t floats = dy.size() + (layer.parts() + 1) * layer.packed_floats();
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
