#include "ops/conv/cpu/winograd/transforms.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include "ops/conv/cpu/normalized_lanes.h"
#include "ops/conv/cpu/transpose.h"
#include "ops/kernels/cpu/target_clones.h"

BRAID_BEGIN_AVX512

namespace braid::cpu::winograd {

namespace {

using Vector = __m512;  // one element of 16 channels

Vector load(const float* p) { return _mm512_loadu_ps(p); }
void store(float* p, Vector v) { _mm512_storeu_ps(p, v); }
Vector times(float factor, Vector v) { return _mm512_set1_ps(factor) * v; }

// The five maps along one axis. A convolution is a product of polynomials; here it is done by evaluating at the points
// 0, ±a, ±b and infinity, multiplying and interpolating. Any a and b are right. Lavin and Gray have 1 and 2; the square
// roots of 1/2 and 2 keep the powers of the points closer together, which quarters the rounding error.

constexpr float kA2 = 0.5f, kB2 = 2;                      // a², b²
constexpr float kA = 0.707106781186547524f, kB = 2 * kA;  // a, b
constexpr float kA3 = kA * kA2, kB3 = kB * kB2;           // a³, b³
constexpr float kScale0 = 1 / (kA2 * kB2);                // one over the product of the distances from 0,
constexpr float kScaleA = 1 / (2 * kA2 * (kA2 - kB2));    // from ±a
constexpr float kScaleB = 1 / (2 * kB2 * (kB2 - kA2));    // and from ±b to the other points

}  // namespace

struct InputMap {  // Bᵀ
  static constexpr int kFrom = kPatch, kTo = kPatch;
  static void apply(const Vector (&d)[kFrom], Vector (&v)[kTo]) {
    const Vector even_a = d[4] - times(kB2, d[2]), odd_a = d[3] - times(kB2, d[1]);
    const Vector even_b = d[4] - times(kA2, d[2]), odd_b = d[3] - times(kA2, d[1]);
    v[0] = times(kA2 * kB2, d[0]) - times(kA2 + kB2, d[2]) + d[4];
    v[1] = even_a + times(kA, odd_a);
    v[2] = even_a - times(kA, odd_a);
    v[3] = even_b + times(kB, odd_b);
    v[4] = even_b - times(kB, odd_b);
    v[5] = times(kA2 * kB2, d[1]) - times(kA2 + kB2, d[3]) + d[5];
  }
};

struct GradientMap {  // A
  static constexpr int kFrom = kOutput, kTo = kPatch;
  static void apply(const Vector (&y)[kFrom], Vector (&v)[kTo]) {
    const Vector even_a = y[0] + times(kA2, y[2]), odd_a = times(kA, y[1]) + times(kA3, y[3]);
    const Vector even_b = y[0] + times(kB2, y[2]), odd_b = times(kB, y[1]) + times(kB3, y[3]);
    v[0] = y[0];
    v[1] = even_a + odd_a;
    v[2] = even_a - odd_a;
    v[3] = even_b + odd_b;
    v[4] = even_b - odd_b;
    v[5] = y[3];
  }
};

namespace {

struct FilterMap {  // G
  static constexpr int kFrom = kFilter, kTo = kPatch;
  static void apply(const Vector (&w)[kFrom], Vector (&u)[kTo]) {
    const Vector even_a = times(kScaleA, w[0]) + times(kScaleA * kA2, w[2]), odd_a = times(kScaleA * kA, w[1]);
    const Vector even_b = times(kScaleB, w[0]) + times(kScaleB * kB2, w[2]), odd_b = times(kScaleB * kB, w[1]);
    u[0] = times(kScale0, w[0]);
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = w[2];
  }
};

struct OutputMap {  // Aᵀ
  static constexpr int kFrom = kPatch, kTo = kOutput;
  static void apply(const Vector (&m)[kFrom], Vector (&y)[kTo]) {
    const Vector even_a = m[1] + m[2], odd_a = m[1] - m[2];
    const Vector even_b = m[3] + m[4], odd_b = m[3] - m[4];
    y[0] = m[0] + even_a + even_b;
    y[1] = times(kA, odd_a) + times(kB, odd_b);
    y[2] = times(kA2, even_a) + times(kB2, even_b);
    y[3] = times(kA3, odd_a) + times(kB3, odd_b) + m[5];
  }
};

struct FilterGradientMap {  // Gᵀ
  static constexpr int kFrom = kPatch, kTo = kFilter;
  static void apply(const Vector (&m)[kFrom], Vector (&w)[kTo]) {
    const Vector even_a = times(kScaleA, m[1] + m[2]), odd_a = times(kScaleA, m[1] - m[2]);
    const Vector even_b = times(kScaleB, m[3] + m[4]), odd_b = times(kScaleB, m[3] - m[4]);
    w[0] = times(kScale0, m[0]) + even_a + even_b;
    w[1] = times(kA, odd_a) + times(kB, odd_b);
    w[2] = times(kA2, even_a) + times(kB2, even_b) + m[5];
  }
};

/// A square of vectors in memory; strides are in floats.
template <class T>
struct Grid {
  T* corner;
  std::int64_t row, column;
  T* at(std::int64_t i, std::int64_t j) const { return corner + i * row + j * column; }
};

/// The map along both axes of get(element). Hands result (i, j) to put(i, j, value). Unrolled, so that the arrays
/// become registers.
template <class Map, class Get, class Put>
[[gnu::always_inline]] inline void apply_2d(Grid<const float> in, Get get, Put put) {
  Vector half[Map::kTo][Map::kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < Map::kFrom; ++j) {
    Vector column[Map::kFrom], mapped[Map::kTo];
#pragma GCC unroll 6
    for (int i = 0; i < Map::kFrom; ++i) column[i] = get(in.at(i, j));
    Map::apply(column, mapped);
#pragma GCC unroll 6
    for (int i = 0; i < Map::kTo; ++i) half[i][j] = mapped[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < Map::kTo; ++i) {
    Vector mapped[Map::kTo];
    Map::apply(half[i], mapped);
#pragma GCC unroll 6
    for (int j = 0; j < Map::kTo; ++j) put(i, j, mapped[j]);
  }
}

template <class Map, class Put>
[[gnu::always_inline]] inline void apply_2d(Grid<const float> in, Put put) {
  apply_2d<Map>(in, load, put);
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
void transform_patch(const Image& image, const Tile& tile, const Extent2d& padding, const Points& points,
                     const NormalizedInput* normalized) {
  const std::int64_t h = tile.h - padding.h, w = tile.w - padding.w;
  const std::int64_t column = image.channels, row = image.width * column;
  const float* pixels = image.data + tile.n * image.height * row;
  const auto inside = [&](std::int64_t i, std::int64_t j) {
    return i >= 0 && i < image.height && j >= 0 && j < image.width;
  };
  const bool all_inside = inside(h, w) && inside(h + Map::kFrom - 1, w + Map::kFrom - 1);
  for (std::int64_t c = 0; c < image.channels; c += kLanes) {
    const Grid<float> targets{points.data + c / points.panel * points.panel_stride + c % points.panel,
                              kPatch * points.point, points.point};
    const auto put = [=](int i, int j, Vector value) { store(targets.at(i, j), value); };
    const auto transform = [&](auto get) {
      alignas(Vector) float padded[Map::kFrom * Map::kFrom * kLanes];
      if (all_inside) {
        const Grid<const float> patch{pixels + h * row + w * column + c, row, column};
        for (int i = 0; i < Map::kFrom; ++i) {  // fetch what the next tile adds
          for (int j = Map::kFrom; j < Map::kFrom + kOutput; ++j) __builtin_prefetch(patch.at(i, j));
        }
        apply_2d<Map>(patch, get, put);
      } else {
        for (int i = 0; i < Map::kFrom; ++i) {
          for (int j = 0; j < Map::kFrom; ++j) {
            const Vector pixel = inside(h + i, w + j) ? get(pixels + (h + i) * row + (w + j) * column + c) : Vector{};
            store(padded + (i * Map::kFrom + j) * kLanes, pixel);
          }
        }
        apply_2d<Map>({padded, Map::kFrom * kLanes, kLanes}, put);
      }
    };
    if (normalized == nullptr) {
      transform(load);
    } else {
      transform([lanes = NormalizedLanes(*normalized, c)](const float* p) { return lanes(load(p)); });
    }
  }
}
template void transform_patch<InputMap>(const Image&, const Tile&, const Extent2d&, const Points&,
                                        const NormalizedInput*);
template void transform_patch<GradientMap>(const Image&, const Tile&, const Extent2d&, const Points&,
                                           const NormalizedInput*);

void store_output(const Images<float>& y, const Tile& tile, const float* m, std::int64_t point_stride,
                  const float* bias, ActivationRange range) {
  const std::int64_t column = y.channels, row = y.width * column;
  const Grid<float> out{y.data + (tile.n * y.height + tile.h) * row + tile.w * column, row, column};
  const std::int64_t rows = y.height - tile.h, columns = y.width - tile.w;
  const Vector offset = bias == nullptr ? Vector{} : load(bias);
  const Vector least = _mm512_set1_ps(range.least), most = _mm512_set1_ps(range.most);
  apply_2d<OutputMap>({m, kPatch * point_stride, point_stride}, [=](int i, int j, Vector value) {
    const Vector sum = value + offset;
    if (i < rows && j < columns) store(out.at(i, j), sum < least ? least : sum > most ? most : sum);
  });
}

void store_filter(const float* m, std::int64_t point_stride, std::int64_t channels, bool add, float* dw) {
  const Grid<float> taps{dw, kFilter * channels, channels};
  apply_2d<FilterGradientMap>({m, kPatch * point_stride, point_stride}, [=](int i, int j, Vector value) {
    store(taps.at(i, j), add ? load(taps.at(i, j)) + value : value);
  });
}

void transform_filter_block(const float* w, const Shape& filter, FilterView view, std::int64_t first_output,
                            std::int64_t first_input, float* u, std::int64_t point_stride, std::int64_t row_stride) {
  constexpr int kTaps = kFilter * kFilter;
  const std::int64_t c = filter[3];
  const bool rotated = view == FilterView::rotated;
  const float* corner = w + (rotated ? first_input * kTaps * c + first_output : first_output * kTaps * c + first_input);
  alignas(Vector) float taps[kTaps * kLanes * kLanes];  // [tap][input][output]
  for (int tap = 0; tap < kTaps; ++tap) {
    const float* rows = corner + (rotated ? kTaps - 1 - tap : tap) * c;
    Vector block[kLanes];
    for (int i = 0; i < kLanes; ++i) block[i] = load(rows + i * kTaps * c);
    if (!rotated) transpose(block);
    for (int i = 0; i < kLanes; ++i) store(taps + (tap * kLanes + i) * kLanes, block[i]);
  }
  for (int input = 0; input < kLanes; ++input) {
    const Grid<float> points{u + input * row_stride, kPatch * point_stride, point_stride};
    apply_2d<FilterMap>({taps + input * kLanes, kFilter * kLanes * kLanes, kLanes * kLanes},
                        [=](int i, int j, Vector value) { store(points.at(i, j), value); });
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

BRAID_END_AVX512
#endif  // __x86_64__
