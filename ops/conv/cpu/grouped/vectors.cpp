#include "ops/conv/cpu/grouped/vectors.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/kernels/cpu/loops.h"

BRAID_BEGIN_AVX512

namespace braid::cpu::grouped {

namespace {

/// A compile-time constant.
template <int kCount>
struct Count {
  static constexpr int value = kCount;
  template <class F>
  [[gnu::always_inline]] void each(F f) const {
#pragma GCC unroll 10
    for (int i = 0; i < kCount; ++i) f(i);
  }
};

constexpr std::int64_t kLanes = 16;
constexpr int kMostOutputs = 8;

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

/// Channel i of their group in all lanes.
[[gnu::always_inline]] inline __m512 spread(__m512 x, std::int64_t group, std::int64_t i) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i first = _mm512_and_epi32(lane, _mm512_set1_epi32(static_cast<int>(-group)));
  return _mm512_maskz_permutexvar_ps(0xffff, _mm512_add_epi32(first, _mm512_set1_epi32(static_cast<int>(i))), x);
}

/// The same outputs with the longer axis last, and with taps in the order of the inputs that they see.
Region in_good_order(Region r) {
  if (r.count[1] > r.count[2]) {
    std::swap(r.count[1], r.count[2]);
    std::swap(r.x_step[1], r.x_step[2]);
    std::swap(r.y_step[1], r.y_step[2]);
    std::swap(r.taps[0], r.taps[1]);
    std::swap(r.x_tap[0], r.x_tap[1]);
    std::swap(r.w_tap[0], r.w_tap[1]);
  }
  for (const int axis : {0, 1}) {
    if (r.x_tap[axis] >= 0) continue;
    r.x += (r.taps[axis] - 1) * r.x_tap[axis];
    r.w += (r.taps[axis] - 1) * r.w_tap[axis];
    r.x_tap[axis] = -r.x_tap[axis];
    r.w_tap[axis] = -r.w_tap[axis];
  }
  return r;
}

/// Calls f(x, y, w, c) for every row of outputs and 16 channels, from c on.
template <class F>
void for_rows(const Region& r, F f) {
  for (std::int64_t n = 0; n < r.count[0]; ++n) {
    for (std::int64_t p = 0; p < r.count[1]; ++p) {
      for (std::int64_t c = 0; c < r.channels; c += kLanes) {
        f(r.x + n * r.x_step[0] + p * r.x_step[1] + c, r.y + n * r.y_step[0] + p * r.y_step[1] + c,
          r.w + c / kLanes * r.w_block, c);
      }
    }
  }
}

/// From an input to the one below it that the next row of outputs sees first.
std::int64_t next_row(const Region& r) { return (r.taps[0] - 1) * r.x_tap[0] + r.x_step[1]; }

/// Adds kTaps neighbours among the taps to kOutputs neighbours among the outputs. If there are several taps, they see
/// neighbouring inputs, as the outputs do: each is spread once for all taps.
template <int kOutputs, int kTaps>
void add_taps(const Region& r, const float* x, const float* w, __m512 (&sums)[kOutputs]) {
  for (std::int64_t i = 0; i < r.group; ++i, w += kLanes) {
    __m512 taps[kTaps];
    Count<kTaps>{}.each([&](int j) { taps[j] = _mm512_loadu_ps(w + j * r.w_tap[1]); });
    Count<kOutputs + kTaps - 1>{}.each([&](int seen) {
      const __m512 input = spread(_mm512_loadu_ps(x + seen * r.x_step[2]), r.group, i);
      Count<kTaps>{}.each([&](int j) {
        const int q = seen - j;
        if (q >= 0 && q < kOutputs) sums[q] = _mm512_fmadd_ps(input, taps[j], sums[q]);
      });
    });
  }
}

template <int kTaps>
void convolve_groups(const Region& r, bool add, const float* bias, ActivationRange range) {
  const __m512 least = _mm512_set1_ps(range.least), most = _mm512_set1_ps(range.most);
  for_rows(r, [&](const float* x, float* y, const float* w, std::int64_t c) {
    const __m512 start = bias == nullptr ? __m512{} : _mm512_loadu_ps(bias + c);
    const auto advance = [&]<int kOutputs>() {
      constexpr Count<kOutputs> outputs;
      __m512 sums[kOutputs];
      outputs.each([&](int q) {
        sums[q] = add ? _mm512_loadu_ps(y + q * r.y_step[2]) : start;
        __builtin_prefetch(x + next_row(r) + q * r.x_step[2]);
      });
      for (std::int64_t i = 0; i < r.taps[0]; ++i) {
        for (std::int64_t j = 0; j < r.taps[1]; j += kTaps) {
          add_taps<kOutputs, kTaps>(r, x + i * r.x_tap[0] + j * r.x_tap[1], w + i * r.w_tap[0] + j * r.w_tap[1], sums);
        }
      }
      outputs.each([&](int q) {
        _mm512_storeu_ps(y + q * r.y_step[2], sums[q] < least ? least : sums[q] > most ? most : sums[q]);
      });
      x += kOutputs * r.x_step[2];
      y += kOutputs * r.y_step[2];
    };
    for (std::int64_t left = r.count[2]; left > 0; left -= kMostOutputs) with_constant<kMostOutputs>(left, advance);
  });
}

/// Adds x·y over one row of outputs to kTaps neighbours among the taps.
template <int kGroup, int kTaps>
void add_products_of_row(const Region& r, const float* x, const float* y, float* w) {
  constexpr Count<kTaps> taps;
  constexpr Count<kGroup> channels;
  const auto place = [&](int j, int i) { return w + j * r.w_tap[1] + i * kLanes; };
  __m512 sums[kTaps][kGroup];
  taps.each([&](int j) { channels.each([&](int i) { sums[j][i] = _mm512_loadu_ps(place(j, i)); }); });
  for (std::int64_t q = 0; q < r.count[2]; ++q, x += r.x_step[2], y += r.y_step[2]) {
    const __m512 dy = _mm512_loadu_ps(y);
    __builtin_prefetch(x + next_row(r));
    __builtin_prefetch(y + r.y_step[1]);
    taps.each([&](int j) {
      const __m512 inputs = _mm512_loadu_ps(x + j * r.x_tap[1]);
      channels.each([&](int i) { sums[j][i] = _mm512_fmadd_ps(spread(inputs, kGroup, i), dy, sums[j][i]); });
    });
  }
  taps.each([&](int j) { channels.each([&](int i) { _mm512_storeu_ps(place(j, i), sums[j][i]); }); });
}

template <int kGroup>
void add_products_of_groups(const Region& r) {
  constexpr int kTaps = std::min<int>(kMaxTaps, 12 / kGroup);  // so that sums and channels fit in the registers
  for_rows(r, [&](const float* x, const float* y, float* w, std::int64_t) {
    for (std::int64_t i = 0; i < r.taps[0]; ++i) {
      for (std::int64_t j = 0; j < r.taps[1]; j += kTaps) {
        with_constant<kTaps>(r.taps[1] - j, [&]<int kCount>() {
          add_products_of_row<kGroup, kCount>(r, x + i * r.x_tap[0] + j * r.x_tap[1], y,
                                              w + i * r.w_tap[0] + j * r.w_tap[1]);
        });
      }
    }
  });
}

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
  if (region.group == 1) return with_taps(region, Convolve{add, bias, range});
  const Region r = in_good_order(region);
  const std::int64_t taps = r.x_tap[1] == r.x_step[2] ? r.taps[1] : 1;
  with_constant<kMaxTaps>(taps, [&]<int kTaps>() { convolve_groups<kTaps>(r, add, bias, range); });
}

void add_products(const Region& region) {
  if (region.group == 1) return with_taps(region, AddProducts{});
  const Region r = in_good_order(region);
  switch (r.group) {
    case 2: return add_products_of_groups<2>(r);
    case 4: return add_products_of_groups<4>(r);
    default: return add_products_of_groups<8>(r);
  }
}

}  // namespace braid::cpu::grouped

BRAID_END_AVX512
#endif  // __x86_64__
