#pragma once
// The arithmetic of Winograd convolution F(4x4, 3x3): the linear maps of winograd.cpp over 16 channels at a time, and
// the matrix product. Call nothing here unless has_avx512().

#include <cstdint>

#include "core/base/shape.h"
#include "ops/common/activation.h"
#include "ops/common/extent.h"
#include "ops/conv/cpu/normalized_input.h"

namespace braid::cpu::winograd {

inline constexpr std::int64_t kFilter = 3;                     ///< extent of the filter
inline constexpr std::int64_t kOutput = 4;                     ///< extent of a tile of the output
inline constexpr std::int64_t kPatch = kOutput + kFilter - 1;  ///< extent of the patch of the input under a tile
inline constexpr std::int64_t kPoints = kPatch * kPatch;
inline constexpr std::int64_t kLanes = 16;  ///< channels in a vector
inline constexpr std::int64_t kRows = 8;    ///< rows of one small matrix product

/// The maps from an image to the points: Bᵀ d B of a patch of the input, A dy Aᵀ of a tile of the output's gradient.
struct InputMap;
struct GradientMap;

/// Place of a tile: image, and row and column of its first output.
struct Tile {
  std::int64_t n, h, w;
};

/// All tiles of a batch, image by image and row by row.
struct Tiling {
  std::int64_t images, rows, columns;
  std::int64_t count() const { return images * rows * columns; }
  Tile at(std::int64_t i) const { return {i / (rows * columns), i / columns % rows * kOutput, i % columns * kOutput}; }
};

/// Images [N,height,width,channels].
template <class T>
struct Images {
  T* data;
  std::int64_t height, width, channels;
};
using Image = Images<const float>;

/// Where the points of a tile go: channel c of point p to data[p · point + c / panel · panel_stride + c % panel].
struct Points {
  float* data;
  std::int64_t point, panel, panel_stride;
};

/// Transforms the patch of one tile for all channels; zero outside the image. Normalises pixels first unless
/// `normalized` is null.
template <class Map>
void transform_patch(const Image& image, const Tile& tile, const Extent2d& padding, const Points& points,
                     const NormalizedInput* normalized = nullptr);

/// Aᵀ M A plus the bias, if not null, kept within the range, for 16 channels of one tile; outputs beyond the edge are
/// dropped.
void store_output(const Images<float>& y, const Tile& tile, const float* m, std::int64_t point_stride,
                  const float* bias, ActivationRange range);

/// Gᵀ M G for 16 channels of one filter: dw [3,3,channels] becomes it, or grows by it.
void store_filter(const float* m, std::int64_t point_stride, std::int64_t channels, bool add, float* dw);

/// How a filter [K,3,3,C] maps inputs to outputs: C to K as it is, or, rotated by 180°, K to C.
enum class FilterView { straight, rotated };

/// G w Gᵀ of 16 outputs × 16 inputs; the outputs lie side by side, inputs row_stride and points point_stride apart.
void transform_filter_block(const float* w, const Shape& filter, FilterView view, std::int64_t first_output,
                            std::int64_t first_input, float* u, std::int64_t point_stride, std::int64_t row_stride);

/// a(i,d) = data[i · row + d · column], b(d,j) = data[d · row + j], c(i,j) = data[i · row + j].
struct LeftMatrix {
  const float* data;
  std::int64_t row, column;
};
struct RightMatrix {
  const float* data;
  std::int64_t row;
};
struct ResultMatrix {
  float* data;
  std::int64_t row;
};

/// c [kRows, columns] = a [kRows, depth] · b [depth, columns], with 16 or 32 columns.
void multiply(const LeftMatrix& a, const RightMatrix& b, const ResultMatrix& c, std::int64_t depth,
              std::int64_t columns);

}  // namespace braid::cpu::winograd
