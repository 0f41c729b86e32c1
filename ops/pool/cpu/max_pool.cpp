#include <cstring>
#include <limits>
#include <type_traits>

#include "ops/common/arithmetic.h"
#include "ops/kernels/function_kernel.h"
#include "ops/pool/cpu/pool_windows.h"

namespace braid::cpu {

namespace {

/// Places of the pixels of a block in their window, or of one pixel in the windows of a block.
struct Places {
  std::int64_t first, row_step, column_step;
  std::int32_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::int32_t>(first + i * row_step + j * column_step);
  }
  Places from(std::int64_t row, std::int64_t column) const { return {at(row, column), row_step, column_step}; }
};

/// Columns of the result into which blocks of the same shape are folded: neighbours, or those a stride apart.
struct Run {
  std::int64_t first, count = 1;
  std::int64_t step;       ///< from one column to the next
  Range from;              ///< columns of the block that is folded into the first
  std::int64_t from_step;  ///< from one block to the next
  std::int64_t place;      ///< place of the block's first column in its window, or in reverse
};

/// Windows in which the same columns are inside the image.
std::vector<Run> window_runs(const WindowAxis& axis) {
  std::vector<Run> runs;
  for (std::int64_t q = 0; q < axis.output; ++q) {
    const Range columns = axis.inside(q);
    const std::int64_t place = columns.begin - axis.start(q);
    if (!runs.empty() && runs.back().from.size() == columns.size() && runs.back().place == place) {
      ++runs.back().count;
    } else {
      runs.push_back({.first = q, .step = 1, .from = columns, .from_step = axis.stride, .place = place});
    }
  }
  return runs;
}

/// Inputs at the same places of neighbouring windows.
std::vector<Run> input_runs(const WindowAxis& axis) {
  std::vector<Run> runs;
  for (std::int64_t residue = 0; residue < std::min(axis.stride, axis.input); ++residue) {
    const std::size_t begin = runs.size();
    for (std::int64_t column = residue; column < axis.input; column += axis.stride) {
      const Range q = axis.outputs_over(column);
      const std::int64_t count = runs.size() > begin ? runs.back().count : 0;
      if (count > 0 && q.begin == runs.back().from.begin + count && q.end == runs.back().from.end + count) {
        ++runs.back().count;
      } else {
        runs.push_back(
            {.first = column, .step = axis.stride, .from = q, .from_step = 1, .place = column - axis.start(q.begin)});
      }
    }
  }
  return runs;
}

/// The most rows and columns of a block. In f64, which is for checks, it is a pixel: a block of each shape takes
/// seconds to compile.
template <class T>
constexpr int kMostPixels = std::is_same_v<T, double> ? 1 : 3;

/// Channels are folded this many at a time, in loops that the compiler vectorises. The rest, which is all of them in
/// the first layers of a small network, would end up in such a loop's remainder: one channel at a time, with
/// unpredictable branches.
constexpr std::int64_t kBlock = 64;

/// Blocks from the one in use to those that are fetched: without this, a quarter of the time is spent waiting for
/// memory.
constexpr std::int64_t kAhead = 2;

/// The remaining channels, in vectors that every x86-64 has.
template <class T>
struct Lanes {
  static constexpr int kCount = 16 / sizeof(T);
  using Integer = std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>;
  typedef T Vector __attribute__((vector_size(16)));
  typedef Integer Integers __attribute__((vector_size(16)));
};

template <int kUsed, class Vector, class T>
[[gnu::always_inline]] inline Vector load(const T* from) {
  Vector vector{};
  if constexpr (std::is_same_v<std::remove_cvref_t<decltype(vector[0])>, T> && kUsed * sizeof(T) == sizeof vector) {
    std::memcpy(&vector, from, sizeof vector);
  } else {
    for (int lane = 0; lane < kUsed; ++lane) vector[lane] = from[lane];
  }
  return vector;
}
template <int kUsed, class Vector, class T>
[[gnu::always_inline]] inline void store(Vector vector, T* to) {
  for (int lane = 0; lane < kUsed; ++lane) to[lane] = static_cast<T>(vector[lane]);
}

/// Calls f.operator()<used lanes>(c) for channels from c on.
template <class T, class F>
[[gnu::always_inline]] inline void for_lanes(std::int64_t c, std::int64_t channels, const F& f) {
  constexpr int kCount = Lanes<T>::kCount;
  for (; channels - c >= kCount; c += kCount) f.template operator()<kCount>(c);
  if constexpr (kCount > 2) {
    if (channels - c == 3) f.template operator()<3>(c);
    if (channels - c == 2) f.template operator()<2>(c);
  }
  if (channels - c == 1) f.template operator()<1>(c);
}

/// best = the larger of it and a block of pixels, and its place along with it. For the first block of a window, `best`
/// is not yet set.
template <bool kFirst, int kRows, int kColumns, class T>
BRAID_TARGET_CLONES void take_maximum(const Run& run, std::int64_t channels, std::int64_t row_pitch, const T* x,
                                      Places places, T* __restrict best, std::uint8_t* __restrict best_places) {
  using Vector = typename Lanes<T>::Vector;
  using Integers = typename Lanes<T>::Integers;
  constexpr T kLeast = -std::numeric_limits<T>::infinity();
  const std::int64_t blocked = channels - channels % kBlock;
  for (std::int64_t pixel = 0; pixel < run.count; ++pixel) {
    for (int i = 0; i < kRows; ++i) {
      const T* const ahead = x + i * row_pitch + kAhead * run.from_step * channels;
      for (std::int64_t c = 0; c < run.from_step * channels; c += 64 / sizeof(T)) __builtin_prefetch(ahead + c);
    }
#pragma omp simd
    for (std::int64_t c = 0; c < blocked; ++c) {
      T value = kFirst ? kLeast : best[c];
      std::int32_t place = kFirst ? places.at(0, 0) : best_places[c];
#pragma GCC unroll 3
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < kColumns; ++j) {
          const T candidate = x[i * row_pitch + j * channels + c];
          const bool larger = arithmetic::Larger<T>{}(candidate, value);
          value = larger ? candidate : value;
          place = larger ? places.at(i, j) : place;
        }
      }
      best[c] = value;
      best_places[c] = static_cast<std::uint8_t>(place);
    }
    for_lanes<T>(
        blocked, channels, [&]<int kUsed>(std::int64_t c) __attribute__((always_inline)) {
          Vector value = kFirst ? Vector{} + kLeast : load<kUsed, Vector>(best + c);
          Integers place = kFirst ? Integers{} + places.at(0, 0) : load<kUsed, Integers>(best_places + c);
#pragma GCC unroll 3
          for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
            for (int j = 0; j < kColumns; ++j) {
              const Vector candidate = load<kUsed, Vector>(x + i * row_pitch + j * channels + c);
              const Integers larger = arithmetic::Larger<Vector>{}(candidate, value);
              value = larger ? candidate : value;
              place = larger ? Integers{} + places.at(i, j) : place;
            }
          }
          store<kUsed>(value, best + c);
          store<kUsed>(place, best_places + c);
        });
    x += run.from_step * channels;
    best += run.step * channels;
    best_places += run.step * channels;
  }
}

/// dx += dy where the maximum of the window was this very input, over a block of windows.
template <int kRows, int kColumns, class T>
BRAID_TARGET_CLONES void add_where(const Run& run, std::int64_t channels, std::int64_t row_pitch, const T* dy,
                                   const std::uint8_t* maxima, Places places, T* __restrict dx) {
  using Vector = typename Lanes<T>::Vector;
  using Integers = typename Lanes<T>::Integers;
  const std::int64_t blocked = channels - channels % kBlock;
  for (std::int64_t pixel = 0; pixel < run.count; ++pixel) {
#pragma omp simd
    for (std::int64_t c = 0; c < blocked; ++c) {
      T sum = dx[c];
#pragma GCC unroll 3
      for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < kColumns; ++j) {
          const std::int64_t e = i * row_pitch + j * channels + c;
          const T gradient = dy[e];
          const bool here = maxima[e] == static_cast<std::uint8_t>(places.at(i, j));
          sum += here ? gradient : T(0);
        }
      }
      dx[c] = sum;
    }
    for_lanes<T>(
        blocked, channels, [&]<int kUsed>(std::int64_t c) __attribute__((always_inline)) {
          Vector sum = load<kUsed, Vector>(dx + c);
#pragma GCC unroll 3
          for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
            for (int j = 0; j < kColumns; ++j) {
              const std::int64_t e = i * row_pitch + j * channels + c;
              const Integers here = load<kUsed, Integers>(maxima + e) == places.at(i, j);
              // Uses a mask, because a choice between vectors of few used lanes may be compiled into branches.
              sum += reinterpret_cast<Vector>(reinterpret_cast<Integers>(load<kUsed, Vector>(dy + e)) & here);
            }
          }
          store<kUsed>(sum, dx + c);
        });
    dy += run.from_step * channels;
    maxima += run.from_step * channels;
    dx += run.step * channels;
  }
}

}  // namespace

Implementations make_max_pool2d(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::MaxPool2d>();
  const Geometry<WindowAxis> g = windows(options, spec.inputs[0].shape, spec.outputs[0].shape);
  return float_kernel(spec, [g, runs = window_runs(g.w), width = spec.width]<class T>(auto inputs, auto outputs) {
    const T* x = at<const T>(inputs, 0);
    T* y = at<T>(outputs, 0);
    std::uint8_t* maxima = at<std::uint8_t>(outputs, 1);
    const std::int64_t pitch = g.w.input * g.channels;
    parallel_for_rows(
        width, g.images, g.h.output, g.w.output * g.channels, [=, &runs](auto image, auto p, auto number) {
          const Range rows = g.h.inside(p);
          const std::int64_t first_place = (rows.begin - g.h.start(p)) * g.w.window;
          for (const Run& run : runs) {
            const Places places{first_place + run.place, g.w.window, 1};
            const std::int64_t first = (number * g.w.output + run.first) * g.channels;
            const T* corner = x + (image * g.h.input + rows.begin) * pitch + run.from.begin * g.channels;
            for_blocks<kMostPixels<T>>(
                rows.size(), run.from.size(), [&]<int kRows, int kColumns>(std::int64_t row, std::int64_t column) {
                  constexpr bool kWhole = kRows > 1;
                  const auto take = row == 0 && column == 0 ? take_maximum<true, kRows, kColumns, T>
                                                            : take_maximum<kWhole, kRows, kColumns, T>;
                  take(run, g.channels, pitch, corner + row * pitch + column * g.channels, places.from(row, column),
                       y + first, maxima + first);
                });
          }
        });
  });
}

Implementations make_max_pool2d_backward(const KernelSpec& spec) {
  const PoolOptions& options = spec.attributes<ops::MaxPool2dBackward>().options;
  const Geometry<WindowAxis> g = windows(options, spec.outputs[0].shape, spec.inputs[0].shape);
  return float_kernel(spec, [g, runs = input_runs(g.w), width = spec.width]<class T>(auto inputs, auto outputs) {
    const T* dy = at<const T>(inputs, 0);
    const std::uint8_t* maxima = at<const std::uint8_t>(inputs, 1);
    T* dx = at<T>(outputs, 0);
    const std::int64_t pitch = g.w.output * g.channels;
    parallel_for_rows(
        width, g.images, g.h.input, g.w.input * g.channels, [=, &runs](auto image, auto row, auto number) {
          const Range p = g.h.outputs_over(row);
          std::fill_n(dx + number * g.w.input * g.channels, g.w.input * g.channels, T(0));
          const std::int64_t first_place = (row - g.h.start(p.begin)) * g.w.window;
          for (const Run& run : runs) {
            const Places places{first_place + run.place, -g.h.stride * g.w.window, -g.w.stride};
            const std::int64_t corner = (image * g.h.output + p.begin) * pitch + run.from.begin * g.channels;
            T* const sum = dx + (number * g.w.input + run.first) * g.channels;
            for_blocks<kMostPixels<T>>(p.size(), run.from.size(),
                                       [&]<int kRows, int kColumns>(std::int64_t i, std::int64_t j) {
                                         const std::int64_t first = corner + i * pitch + j * g.channels;
                                         add_where<kRows, kColumns>(run, g.channels, pitch, dy + first, maxima + first,
                                                                    places.from(i, j), sum);
                                       });
          }
        });
  });
}

}  // namespace braid::cpu
