#include "ops/conv/cpu/depthwise/vectors.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/kernels/cpu/target_clones.h"

BRAID_BEGIN_AVX512

namespace braid::cpu::depthwise {

namespace {

/// A compile-time constant.
template <int kCount>
struct Count {
  static constexpr int value = kCount;
  template <class F>
  [[gnu::always_inline]] void each(F f) const {
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) f(i);
  }
};

constexpr std::int64_t kLanes = 16;

/// 16 neighbouring channels.
struct AllLanes {
  __m512 load(const float* p) const { return _mm512_loadu_ps(p); }
  void store(float* p, __m512 v) const { _mm512_storeu_ps(p, v); }
};

/// The last channels, if there are fewer than 16.
struct SomeLanes {
  __mmask16 mask;
  __m512 load(const float* p) const { return _mm512_maskz_loadu_ps(mask, p); }
  void store(float* p, __m512 v) const { _mm512_mask_storeu_ps(p, mask, v); }
};

SomeLanes last_lanes(std::int64_t channels) { return {static_cast<__mmask16>((1 << channels % kLanes) - 1)}; }

/// Calls f(row, column) for all taps.
template <int kRows, int kColumns, class F>
[[gnu::always_inline]] inline void for_taps(F f) {
#pragma GCC unroll 3
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int j = 0; j < kColumns; ++j) f(i, j);
  }
}

/// The taps stay in registers over all outputs, of which up to four neighbours are computed at a time.
struct Convolve {
  bool add;
  const float* bias;
  ActivationRange range;

  template <int kRows, int kColumns>
  void run(const Region& r) const {
    std::int64_t c = 0;
    for (; c + kLanes <= r.channels; c += kLanes) run_channels<kRows, kColumns>(r, c, AllLanes{});
    if (c < r.channels) run_channels<kRows, kColumns>(r, c, last_lanes(r.channels));
  }

  template <int kRows, int kColumns, class Lanes>
  void run_channels(const Region& r, std::int64_t c, Lanes lanes) const {
    const std::int64_t x_row = r.x_tap[0], x_column = r.x_tap[1], x_step = r.x_step[2], y_step = r.y_step[2];
    const bool adds = add;
    const __m512 start = bias == nullptr ? __m512{} : lanes.load(bias + c);
    const __m512 least = _mm512_set1_ps(range.least), most = _mm512_set1_ps(range.most);
    __m512 taps[kRows][kColumns];
    for_taps<kRows, kColumns>(
        [&](int i, int j) { taps[i][j] = lanes.load(r.w + i * r.w_tap[0] + j * r.w_tap[1] + c); });
    for (std::int64_t n = 0; n < r.count[0]; ++n) {
      for (std::int64_t p = 0; p < r.count[1]; ++p) {
        const float* x = r.x + n * r.x_step[0] + p * r.x_step[1] + c;
        float* y = r.y + n * r.y_step[0] + p * r.y_step[1] + c;
        const auto advance = [&]<int kOutputs>(Count<kOutputs> outputs) {
          __m512 sums[kOutputs];
          outputs.each([&](int q) { sums[q] = adds ? lanes.load(y + q * y_step) : start; });
          for_taps<kRows, kColumns>([&](int i, int j) {
            const float* seen = x + i * x_row + j * x_column;
            outputs.each([&](int q) { sums[q] = _mm512_fmadd_ps(lanes.load(seen + q * x_step), taps[i][j], sums[q]); });
          });
          outputs.each([&](int q) {
            lanes.store(y + q * y_step, sums[q] < least ? least : sums[q] > most ? most : sums[q]);
          });
          x += kOutputs * x_step;
          y += kOutputs * y_step;
        };
        std::int64_t left = r.count[2];
        for (; left >= 4; left -= 4) advance(Count<4>{});
        for (; left > 0; --left) advance(Count<1>{});
      }
    }
  }
};

/// The sums stay in registers over all outputs, for up to 32 channels at a time.
struct AddProducts {
  template <int kRows, int kColumns>
  void run(const Region& r) const {
    std::int64_t c = 0;
    for (; c + 2 * kLanes <= r.channels; c += 2 * kLanes) run_channels<kRows, kColumns>(r, c, AllLanes{}, Count<2>{});
    if (c + kLanes <= r.channels) run_channels<kRows, kColumns>(r, c, AllLanes{}, Count<1>{});
    if (r.channels % kLanes != 0) {
      run_channels<kRows, kColumns>(r, r.channels / kLanes * kLanes, last_lanes(r.channels), Count<1>{});
    }
  }

  template <int kRows, int kColumns, class Lanes, int kVectors>
  void run_channels(const Region& r, std::int64_t c, Lanes lanes, Count<kVectors> vectors) const {
    const std::int64_t x_row = r.x_tap[0], x_column = r.x_tap[1], x_step = r.x_step[2], y_step = r.y_step[2];
    __m512 sums[kRows][kColumns][kVectors];
    float* const w = r.w + c;
    for_taps<kRows, kColumns>([&](int i, int j) {
      vectors.each([&](int v) { sums[i][j][v] = lanes.load(w + i * r.w_tap[0] + j * r.w_tap[1] + v * kLanes); });
    });
    for (std::int64_t n = 0; n < r.count[0]; ++n) {
      for (std::int64_t p = 0; p < r.count[1]; ++p) {
        const float* x = r.x + n * r.x_step[0] + p * r.x_step[1] + c;
        const float* y = r.y + n * r.y_step[0] + p * r.y_step[1] + c;
        for (std::int64_t q = 0; q < r.count[2]; ++q, x += x_step, y += y_step) {
          vectors.each([&](int v) {
            const __m512 dy = lanes.load(y + v * kLanes);
            for_taps<kRows, kColumns>([&](int i, int j) {
              const float* seen = x + i * x_row + j * x_column + v * kLanes;
              sums[i][j][v] = _mm512_fmadd_ps(lanes.load(seen), dy, sums[i][j][v]);
            });
          });
        }
      }
    }
    for_taps<kRows, kColumns>([&](int i, int j) {
      vectors.each([&](int v) { lanes.store(w + i * r.w_tap[0] + j * r.w_tap[1] + v * kLanes, sums[i][j][v]); });
    });
  }
};

template <int kRows, class Work>
void with_columns(const Region& region, const Work& work) {
  switch (region.taps[1]) {
    case 1: return work.template run<kRows, 1>(region);
    case 2: return work.template run<kRows, 2>(region);
    default: return work.template run<kRows, 3>(region);
  }
}

template <class Work>
void with_taps(const Region& region, const Work& work) {
  switch (region.taps[0]) {
    case 1: return with_columns<1>(region, work);
    case 2: return with_columns<2>(region, work);
    default: return with_columns<3>(region, work);
  }
}

}  // namespace

void convolve(const Region& region, bool add, const float* bias, ActivationRange range) {
  with_taps(region, Convolve{add, bias, range});
}

void add_products(const Region& region) { with_taps(region, AddProducts{}); }

}  // namespace braid::cpu::depthwise

BRAID_END_AVX512
#endif  // __x86_64__
