// A block combines some outputs: threads side by side take neighbouring outputs or, where those lie apart, neighbouring
// rows; then a tree over the threads of each output. Where outputs are few, their rows are cut into chunks, and a
// second launch combines those in order.

#include "ops/elementwise/reduction.h"
#include "ops/kernels/cuda/elements.cuh"

namespace braid::cuda {

namespace {

using ops::ReduceKind;

struct ReductionTiles {
  ReductionAxes axes;
  int columns;          ///< outputs of a block
  int lanes;            ///< threads for each output
  bool side_by_side;    ///< neighbouring threads take neighbouring outputs
  std::int64_t tiles;   ///< blocks that the outputs need
  std::int64_t chunks;  ///< that the rows are cut into
  std::int64_t chunk;   ///< rows of a chunk

  ReductionTiles(const ReductionAxes& reduction, int units) : axes(reduction) {
    constexpr int kSideBySide = 32;
    constexpr std::int64_t kRowsPerThread = 8;  // a chunk smaller than that is not worth a block
    side_by_side = axes.channels >= kSideBySide;
    lanes = kThreads / kSideBySide;
    if (!side_by_side) {
      for (lanes = 1; lanes < kThreads && lanes < axes.rows;) lanes *= 2;
    }
    columns = kThreads / lanes;
    tiles = (axes.outputs() + columns - 1) / columns;
    const std::int64_t wanted = std::int64_t{units} * 8 / std::max<std::int64_t>(1, tiles);
    chunks = std::clamp<std::int64_t>(std::min(wanted, axes.rows / (lanes * kRowsPerThread)), 1, 1024);
    chunk = std::max<std::int64_t>(1, (axes.rows + chunks - 1) / chunks);
  }
  std::size_t workspace_bytes() const {
    return chunks > 1 ? static_cast<std::size_t>(chunks * axes.outputs()) * sizeof(double) : 0;
  }
  __device__ std::int64_t row_offset(std::int64_t row) const {
    if (axes.reduced.rank == 0) return row * axes.channels;
    const auto at = [&](auto place) {
      const auto run = static_cast<decltype(place)>(axes.run);
      return axes.reduced.offset(place / run) + static_cast<std::int64_t>(place % run) * axes.channels;
    };
    return row <= UINT32_MAX ? at(static_cast<std::uint32_t>(row)) : at(static_cast<std::uint64_t>(row));
  }
};

template <ReduceKind kKind, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const __grid_constant__ ReductionTiles cut, const T* x, T* y, double* partials) {
  using C = Compute<T>;
  __shared__ double totals[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int column = cut.side_by_side ? thread % cut.columns : thread / cut.lanes;
  const int lane = cut.side_by_side ? thread / cut.columns : thread % cut.lanes;
  const ReductionAxes& axes = cut.axes;
  for (std::int64_t piece = blockIdx.x; piece < cut.tiles * cut.chunks; piece += gridDim.x) {
    const std::int64_t chunk = piece % cut.chunks, output = piece / cut.chunks * cut.columns + column;
    const std::int64_t after = (chunk + 1) * cut.chunk, end = after < axes.rows ? after : axes.rows;
    C total = arithmetic::neutral<kKind, C>();
    if (output < axes.outputs()) {
      const T* from = x + axes.kept.offset(output / axes.channels) + output % axes.channels;
      for (std::int64_t row = chunk * cut.chunk + lane; row < end; row += cut.lanes) {
        total = arithmetic::combine<kKind>(total, widen(from[cut.row_offset(row)]));
      }
    }
    double* const own = totals + lane * cut.columns + column;
    *own = static_cast<double>(total);
    __syncthreads();
    for (int half = cut.lanes / 2; half > 0; half /= 2) {
      if (lane < half) *own = arithmetic::combine<kKind>(*own, own[half * cut.columns]);
      __syncthreads();
    }
    if (lane == 0 && output < axes.outputs()) {
      if (cut.chunks > 1) {
        partials[chunk * axes.outputs() + output] = *own;
      } else {
        y[output] = narrow<T>(static_cast<C>(arithmetic::finish<kKind>(*own, axes.rows)));
      }
    }
  }
}

template <ReduceKind kKind, class T>
__global__ void __launch_bounds__(kThreads)
    combine_chunks_kernel(std::int64_t outputs, std::int64_t chunks, std::int64_t rows, const double* partials, T* y) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < outputs;
       i += std::int64_t{gridDim.x} * kThreads) {
    double total = partials[i];
    for (std::int64_t chunk = 1; chunk < chunks; ++chunk) {
      total = arithmetic::combine<kKind>(total, partials[chunk * outputs + i]);
    }
    y[i] = narrow<T>(static_cast<Compute<T>>(arithmetic::finish<kKind>(total, rows)));
  }
}

}  // namespace

Implementations make_reduce(const KernelSpec& spec) {
  const auto& attributes = spec.attributes<ops::Reduce>();
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    return for_reduction(attributes.kind, [&]<ReduceKind kKind>() -> std::unique_ptr<Kernel> {
      const ReductionTiles cut(ReductionAxes(spec.inputs[0].shape, attributes.axes), spec.info->capacity);
      return function_kernel(
          cut.workspace_bytes(),
          [cut, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
            auto* const partials = static_cast<double*>(workspace);
            T* const y = at<T>(outputs, 0);
            launch(stream, {.grid = blocks_for(cut.tiles * cut.chunks, 1, units), .block = kThreads},
                   reduce_kernel<kKind, T>, cut, at<const T>(inputs, 0), y, partials);
            if (cut.chunks == 1) return;
            launch(stream, stride_shape(cut.axes.outputs(), 1, units), combine_chunks_kernel<kKind, T>,
                   cut.axes.outputs(), cut.chunks, cut.axes.rows, static_cast<const double*>(partials), y);
          });
    });
  });
}

}  // namespace braid::cuda
