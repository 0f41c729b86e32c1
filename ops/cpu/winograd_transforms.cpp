#include "ops/cpu/winograd_transforms.h"

#include <immintrin.h>

// From here on everything is compiled for AVX-512, in this file only: no inline function of a header must be.
#pragma GCC push_options
#pragma GCC target("avx512f")

namespace braid::cpu::winograd {

namespace {

using Vector = __m512;  // one element of 16 channels

Vector load(const float* p) { return _mm512_loadu_ps(p); }
void store(float* p, Vector v) { _mm512_storeu_ps(p, v); }
Vector times(float factor, Vector v) { return _mm512_set1_ps(factor) * v; }

}  // namespace

// The five maps along one axis, for the interpolation points 0, 1, -1, 2, -2 and infinity (Lavin and Gray, section 4).

struct InputMap {  // Bᵀ
  static constexpr int from = kPatch, to = kPatch;
  static void apply(const Vector (&d)[from], Vector (&v)[to]) {
    const Vector even = d[4] - times(4, d[2]), odd = d[3] - times(4, d[1]);
    const Vector even2 = d[4] - d[2], odd2 = times(2, d[3] - d[1]);
    v[0] = times(4, d[0]) - times(5, d[2]) + d[4];
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = even2 + odd2;
    v[4] = even2 - odd2;
    v[5] = times(4, d[1]) - times(5, d[3]) + d[5];
  }
};

struct GradientMap {  // A
  static constexpr int from = kOutput, to = kPatch;
  static void apply(const Vector (&y)[from], Vector (&v)[to]) {
    const Vector even = y[0] + y[2], odd = y[1] + y[3];
    const Vector even2 = y[0] + times(4, y[2]), odd2 = times(2, y[1]) + times(8, y[3]);
    v[0] = y[0];
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = even2 + odd2;
    v[4] = even2 - odd2;
    v[5] = y[3];
  }
};

namespace {

struct FilterMap {  // G
  static constexpr int from = kFilter, to = kPatch;
  static void apply(const Vector (&w)[from], Vector (&u)[to]) {
    const Vector even = times(-1.0f / 6, w[0] + w[2]), odd = times(-1.0f / 6, w[1]);
    const Vector even2 = times(1.0f / 24, w[0]) + times(1.0f / 6, w[2]), odd2 = times(1.0f / 12, w[1]);
    u[0] = times(0.25f, w[0]);
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = even2 + odd2;
    u[4] = even2 - odd2;
    u[5] = w[2];
  }
};

struct OutputMap {  // Aᵀ
  static constexpr int from = kPatch, to = kOutput;
  static void apply(const Vector (&m)[from], Vector (&y)[to]) {
    const Vector sum = m[1] + m[2], difference = m[1] - m[2];
    const Vector sum2 = m[3] + m[4], difference2 = m[3] - m[4];
    y[0] = m[0] + sum + sum2;
    y[1] = difference + times(2, difference2);
    y[2] = sum + times(4, sum2);
    y[3] = difference + times(8, difference2) + m[5];
  }
};

struct FilterGradientMap {  // Gᵀ
  static constexpr int from = kPatch, to = kFilter;
  static void apply(const Vector (&m)[from], Vector (&w)[to]) {
    const Vector sum = times(-1.0f / 6, m[1] + m[2]), sum2 = m[3] + m[4];
    w[0] = times(0.25f, m[0]) + sum + times(1.0f / 24, sum2);
    w[1] = times(-1.0f / 6, m[1] - m[2]) + times(1.0f / 12, m[3] - m[4]);
    w[2] = sum + times(1.0f / 6, sum2) + m[5];
  }
};

/// The map along both axes of a patch read as in(i, j); its results are handed to out(i, j, value).
template <class Map, class In, class Out>
void apply_2d(const In& in, const Out& out) {
  Vector half[Map::to][Map::from];
#pragma GCC unroll 6
  for (int j = 0; j < Map::from; ++j) {
    Vector column[Map::from], mapped[Map::to];
#pragma GCC unroll 6
    for (int i = 0; i < Map::from; ++i) column[i] = in(i, j);
    Map::apply(column, mapped);
#pragma GCC unroll 6
    for (int i = 0; i < Map::to; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Map::to; ++i) {
    Vector mapped[Map::to];
    Map::apply(half[i], mapped);
#pragma GCC unroll 6
    for (int j = 0; j < Map::to; ++j) out(i, j, mapped[j]);
  }
}

/// Transposes 16x16 floats: round by round, exchanges the off-diagonal quarters of blocks of 2, 4, 8 and 16.
void transpose(Vector (&rows)[kLanes]) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma GCC unroll 4
  for (int half = 1; half < kLanes; half *= 2) {
    const __mmask16 right = _mm512_test_epi32_mask(lane, _mm512_set1_epi32(half));
    const __m512i upper = _mm512_mask_add_epi32(lane, right, lane, _mm512_set1_epi32(kLanes - half));
    const __m512i lower =
        _mm512_mask_add_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(half)), right, lane, _mm512_set1_epi32(kLanes));
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      if ((i & half) != 0) continue;
      const Vector above = rows[i], below = rows[i + half];
      rows[i] = _mm512_permutex2var_ps(above, upper, below);
      rows[i + half] = _mm512_permutex2var_ps(above, lower, below);
    }
  }
}

template <int Vectors>
void multiply_vectors(LeftMatrix a, RightMatrix b, ResultMatrix c, std::int64_t depth) {
  Vector sum[kRows][Vectors] = {};
  for (std::int64_t d = 0; d < depth; ++d) {
    Vector right[Vectors];
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) right[j] = load(b.data + d * b.row + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const Vector left = _mm512_set1_ps(a.data[i * a.row + d * a.column]);
#pragma GCC unroll 2
      for (int j = 0; j < Vectors; ++j) sum[i][j] = _mm512_fmadd_ps(left, right[j], sum[i][j]);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < Vectors; ++j) store(c.data + i * c.row + j * kLanes, sum[i][j]);
  }
}

}  // namespace

template <class Map>
void transform_patch(const Image& image, const Tile& tile, const Extent2d& padding, float* v,
                     std::int64_t point_stride) {
  const std::int64_t h = tile.h - padding.h, w = tile.w - padding.w;
  const std::int64_t column = image.channels, row = image.width * column;
  const float* corner = image.data + (tile.n * image.height + h) * row + w * column;
  const bool whole = h >= 0 && w >= 0 && h + Map::from <= image.height && w + Map::from <= image.width;
  const auto inside = [&](int i, int j) {
    return h + i >= 0 && h + i < image.height && w + j >= 0 && w + j < image.width;
  };
  for (std::int64_t c = 0; c < image.channels; c += kLanes) {
    const auto pixel = [&](int i, int j) { return load(corner + i * row + j * column + c); };
    const auto store_point = [&](int i, int j, Vector value) { store(v + (i * kPatch + j) * point_stride + c, value); };
    if (whole) {
      apply_2d<Map>(pixel, store_point);
    } else {
      apply_2d<Map>([&](int i, int j) { return inside(i, j) ? pixel(i, j) : Vector{}; }, store_point);
    }
  }
}
template void transform_patch<InputMap>(const Image&, const Tile&, const Extent2d&, float*, std::int64_t);
template void transform_patch<GradientMap>(const Image&, const Tile&, const Extent2d&, float*, std::int64_t);

void store_output(const Images<float>& y, const Tile& tile, const float* m, std::int64_t point_stride) {
  const std::int64_t column = y.channels, row = y.width * column;
  float* corner = y.data + (tile.n * y.height + tile.h) * row + tile.w * column;
  const std::int64_t rows = y.height - tile.h, columns = y.width - tile.w;
  apply_2d<OutputMap>([&](int i, int j) { return load(m + (i * kPatch + j) * point_stride); },
                      [&](int i, int j, Vector value) {
                        if (i < rows && j < columns) store(corner + i * row + j * column, value);
                      });
}

void store_filter(const float* m, std::int64_t point_stride, std::int64_t channels, bool add, float* dw) {
  for (std::int64_t c = 0; c < channels; c += kLanes) {
    apply_2d<FilterGradientMap>([&](int i, int j) { return load(m + (i * kPatch + j) * point_stride + c); },
                                [&](int i, int j, Vector value) {
                                  float* tap = dw + (i * kFilter + j) * channels + c;
                                  store(tap, add ? load(tap) + value : value);
                                });
  }
}

void transform_filter_block(const float* w, const Shape& filter, FilterView view, std::int64_t first_output,
                            std::int64_t first_input, float* u, std::int64_t point_stride, std::int64_t row_stride) {
  constexpr int kTaps = kFilter * kFilter;
  const std::int64_t c = filter[3];
  const bool rotated = view == FilterView::rotated;
  const float* corner = w + (rotated ? first_input * kTaps * c + first_output : first_output * kTaps * c + first_input);
  Vector taps[kTaps][kLanes];  // [tap][input], a lane for each output
  for (int tap = 0; tap < kTaps; ++tap) {
    const float* rows = corner + (rotated ? kTaps - 1 - tap : tap) * c;
    for (int i = 0; i < kLanes; ++i) taps[tap][i] = load(rows + i * kTaps * c);
    if (!rotated) transpose(taps[tap]);
  }
  for (int input = 0; input < kLanes; ++input) {
    apply_2d<FilterMap>(
        [&](int i, int j) { return taps[i * kFilter + j][input]; },
        [&](int i, int j, Vector value) { store(u + input * row_stride + (i * kPatch + j) * point_stride, value); });
  }
}

void multiply(const LeftMatrix& a, const RightMatrix& b, const ResultMatrix& c, std::int64_t depth,
              std::int64_t columns) {
  if (columns == kLanes) {
    multiply_vectors<1>(a, b, c, depth);
  } else {
    multiply_vectors<2>(a, b, c, depth);
  }
}

}  // namespace braid::cpu::winograd

#pragma GCC pop_options

namespace braid::cpu::winograd {

bool vectors_available() { return __builtin_cpu_supports("avx512f"); }

}  // namespace braid::cpu::winograd
