// Pieces of the rows are combined into many accumulators side by side, so that the loops are long and vectorised; then
// the accumulators, and at last the pieces, in a fixed order.

#include "ops/elementwise/reduce.h"

#include "ops/elementwise/reduction.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

using ops::ReduceKind;

constexpr std::int64_t kLanes = 128, kMaxTile = 1024;

/// How a reduction is cut, from its shape alone.
struct ReductionPieces {
  ReductionAxes axes;
  std::int64_t tile;    ///< channels of a piece
  std::int64_t tiles;   ///< that a group of channels is cut into
  std::int64_t chunks;  ///< that the rows are cut into
  std::int64_t chunk;   ///< rows of a chunk
  std::int64_t lanes;   ///< number of rows that are accumulated side by side, each with all channels of the tile

  explicit ReductionPieces(const ReductionAxes& reduction) : axes(reduction) {
    constexpr std::int64_t kElements = 32768, kMaxChunks = 64;
    tile = std::clamp<std::int64_t>(axes.channels, 1, kMaxTile);
    tiles = divide_up(axes.channels, tile);
    const bool cuts_rows = axes.groups * tiles < 16;
    chunks = cuts_rows ? std::clamp<std::int64_t>(axes.rows * tile / kElements, 1, kMaxChunks) : 1;
    chunk = std::max<std::int64_t>(1, divide_up(axes.rows, chunks));
    const std::int64_t side_by_side = std::min(kLanes / tile, axes.run / 4);
    lanes = tile * (tiles > 1 ? 1 : std::max<std::int64_t>(1, side_by_side));
  }
  std::int64_t pieces() const { return axes.groups * tiles * chunks; }
  std::int64_t grain() const { return grain_of(chunk * tile); }
};

/// Combines `rows` rows that lie `stride` apart into the accumulators.
template <ReduceKind kKind, class T>
BRAID_TARGET_CLONES void combine_rows(std::int64_t rows, std::int64_t width, std::int64_t stride, const T* x,
                                      double* __restrict totals) {
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma omp simd
    for (std::int64_t i = 0; i < width; ++i) {
      totals[i] = arithmetic::combine<kKind>(totals[i], static_cast<double>(x[row * stride + i]));
    }
  }
}

/// The totals of one piece are totals[0, its channels).
template <ReduceKind kKind, class T>
void reduce_piece(const ReductionPieces& cut, const T* x, std::int64_t first_row, std::int64_t end_row,
                  std::int64_t width, double* totals) {
  const ReductionAxes& axes = cut.axes;
  std::fill_n(totals, cut.lanes, arithmetic::neutral<kKind, double>());
  for (std::int64_t row = first_row; row < end_row;) {
    const std::int64_t place = row % axes.run, rows = std::min(end_row - row, axes.run - place);
    const T* from = x + axes.reduced.offset(row / axes.run) + place * axes.channels;
    if (cut.tiles > 1) {
      combine_rows<kKind>(rows, width, axes.channels, from, totals);
    } else {
      const std::int64_t wide = rows * width / cut.lanes, rest = rows * width - wide * cut.lanes;
      combine_rows<kKind>(wide, cut.lanes, cut.lanes, from, totals);
      combine_rows<kKind>(std::int64_t{1}, rest, rest, from + wide * cut.lanes, totals);
    }
    row += rows;
  }
  for (std::int64_t row = cut.tile; row < cut.lanes; row += cut.tile) {
    for (std::int64_t i = 0; i < cut.tile; ++i) totals[i] = arithmetic::combine<kKind>(totals[i], totals[row + i]);
  }
}

template <ReduceKind kKind, class T>
void reduce(const ReductionPieces& cut, int width, const T* x, T* y, double* partials) {
  const ReductionAxes& axes = cut.axes;
  parallel_for(width, cut.pieces(), cut.grain(), [&](std::int64_t begin, std::int64_t end) {
    double totals[std::max(kLanes, kMaxTile)];
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t chunk = piece % cut.chunks, tile = piece / cut.chunks % cut.tiles;
      const std::int64_t group = piece / (cut.chunks * cut.tiles), channel = tile * cut.tile;
      const std::int64_t channels = std::min(cut.tile, axes.channels - channel);
      const std::int64_t first_row = chunk * cut.chunk, end_row = std::min(axes.rows, first_row + cut.chunk);
      reduce_piece<kKind>(cut, x + axes.kept.offset(group) + channel, first_row, end_row, channels, totals);
      const std::int64_t output = group * axes.channels + channel;
      if (cut.chunks > 1) {
        std::copy_n(totals, channels, partials + chunk * axes.outputs() + output);
      } else {
        for (std::int64_t i = 0; i < channels; ++i) {
          y[output + i] = static_cast<T>(arithmetic::finish<kKind>(totals[i], axes.rows));
        }
      }
    }
  });
  if (cut.chunks == 1) return;
  for (std::int64_t chunk = 1; chunk < cut.chunks; ++chunk) {
    combine_rows<kKind>(std::int64_t{1}, axes.outputs(), axes.outputs(), partials + chunk * axes.outputs(), partials);
  }
  for (std::int64_t i = 0; i < axes.outputs(); ++i) {
    y[i] = static_cast<T>(arithmetic::finish<kKind>(partials[i], axes.rows));
  }
}

}  // namespace

Implementations make_reduce(const KernelSpec& spec) {
  const auto& attributes = spec.attributes<ops::Reduce>();
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return for_reduction(attributes.kind, [&]<ReduceKind kKind>() -> std::unique_ptr<Kernel> {
      const ReductionPieces cut(ReductionAxes(spec.inputs[0].shape, attributes.axes));
      const std::int64_t partials = cut.chunks > 1 ? cut.chunks * cut.axes.outputs() : 0;
      return function_kernel(static_cast<std::size_t>(partials) * sizeof(double),
                             [cut, width = spec.width](auto inputs, auto outputs, void* workspace) {
                               reduce<kKind>(cut, width, at<const T>(inputs, 0), at<T>(outputs, 0),
                                             static_cast<double*>(workspace));
                             });
    });
  });
}

}  // namespace braid::cpu
