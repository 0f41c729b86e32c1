#pragma once
// Sums over the rows of a matrix [rows,C], which is what any [...,C] is to a batch normalisation. A block is a tile: up
// to 32 neighbouring vectors of channels, so that its reads are coalesced, times as many rows as it has threads left.
// Threads stride down the rows with their sums in registers and then add them up in shared memory. Tiles that share
// channels leave partial sums in the workspace, which a second kernel adds, in double precision. The order of all
// additions follows from the shape and the number of SMs.

#include "ops/cuda/elements.cuh"

namespace braid::cuda {

struct ChannelTiles {
  std::int64_t rows = 0;
  int channels = 0;
  unsigned across = 1;  ///< threads of a block along a row; the others are below
  unsigned column_blocks = 0;
  unsigned row_blocks = 0;

  ChannelTiles() = default;
  /// Tiles for vectors of `width` channels, at most `most_across` side by side; about `most_blocks` in all, with work
  /// for at least `rows_per_thread` rows each.
  ChannelTiles(std::int64_t row_count, std::int64_t channel_count, int width, unsigned most_across, int rows_per_thread,
               int most_blocks)
      : rows(row_count), channels(static_cast<int>(channel_count)) {
    const auto vectors = static_cast<unsigned>((channel_count + width - 1) / width);
    while (across < vectors && across < most_across) across *= 2;
    column_blocks = (vectors + across - 1) / across;
    const std::int64_t rows_per_block = std::int64_t{kThreads / across} * rows_per_thread;
    const auto most = static_cast<std::int64_t>(most_blocks) / std::max(1u, column_blocks);
    row_blocks = static_cast<unsigned>(
        std::clamp((rows + rows_per_block - 1) / rows_per_block, std::int64_t{1}, std::max(std::int64_t{1}, most)));
  }

  LaunchShape launch_shape() const {
    return {.grid = column_blocks * row_blocks, .block = dim3(across, kThreads / across)};
  }
};

/// [...,C] as rows.
inline std::int64_t row_count(const Shape& shape) {
  const std::int64_t channels = shape[shape.rank() - 1];
  return channels == 0 ? 0 : shape.size() / channels;
}

/// A thread's part of its tile.
template <int kWidth>
struct TilePlace {
  int channel;  ///< the first of kWidth
  bool inside;  ///< the channels exist
  unsigned row_block;
  std::int64_t row;   ///< the first
  std::int64_t step;  ///< from row to row

  __device__ explicit TilePlace(const ChannelTiles& tiles)
      : channel(static_cast<int>((blockIdx.x % tiles.column_blocks * tiles.across + threadIdx.x) * kWidth)),
        inside(channel < tiles.channels),
        row_block(blockIdx.x / tiles.column_blocks),
        row(std::int64_t{row_block} * blockDim.y + threadIdx.y),
        step(std::int64_t{tiles.row_blocks} * blockDim.y) {}
};

/// Calls use(element, read(element)) for the elements that lie `step` apart. Reads kRows of them before it uses the
/// first.
template <int kRows, class Read, class Use>
__device__ void for_rows(std::int64_t first, std::int64_t step, std::int64_t end, const Read& read, const Use& use) {
  std::int64_t e = first;
  for (; e + (kRows - 1) * step < end; e += kRows * step) {
    decltype(read(e)) rows[kRows];
    for_lanes<kRows>([&](int i) { rows[i] = read(e + i * step); });
    for_lanes<kRows>([&](int i) { use(e + i * step, rows[i]); });
  }
  for (; e < end; e += step) use(e, read(e));
}

/// Adds up the sums of the threads with the same channels; those of the block's first row of threads get the totals.
/// All threads of the block must call it, and no more than once.
template <int kSums, int kWidth, class T>
__device__ void sum_down(Lanes<T, kWidth> (&sums)[kSums]) {
  __shared__ T shared[kSums * kWidth][kThreads];
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  const auto for_values = [&](const auto& f) {
    for_lanes<kSums>([&](int s) { for_lanes<kWidth>([&](int i) { f(sums[s][i], shared[s * kWidth + i]); }); });
  };
  for_values([&](T& value, T* row) { row[thread] = value; });
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y >= half) continue;
    for_values([&](T& value, T* row) { row[thread] = value += row[thread + half * blockDim.x]; });
  }
}

/// The sums of a thread's rows. `terms.start<kWidth>(channel)` holds what all rows of the channels have in common;
/// its read(element) gives what is needed of a row, and add(row, sums) takes it.
template <int kSums, int kRows, int kWidth, class T, class Terms>
__device__ void sum_rows(const ChannelTiles& tiles, const TilePlace<kWidth>& place, const Terms& terms,
                         Lanes<T, kWidth> (&sums)[kSums]) {
  if (!place.inside) return;
  const auto channels = terms.template start<kWidth>(place.channel);
  for_rows<kRows>(
      place.row * tiles.channels + place.channel, place.step * tiles.channels, tiles.rows * tiles.channels,
      [&](std::int64_t e) { return channels.read(e); },
      [&](std::int64_t, const auto& row) { channels.add(row, sums); });
}

/// partials [row blocks, kSums, C].
template <int kSums, int kRows, int kWidth, class T, class Terms>
__global__ void __launch_bounds__(kThreads)
    partial_sums_kernel(const __grid_constant__ ChannelTiles tiles, const __grid_constant__ Terms terms, T* partials) {
  const TilePlace<kWidth> place(tiles);
  Lanes<T, kWidth> sums[kSums] = {};
  sum_rows<kSums, kRows>(tiles, place, terms, sums);
  sum_down(sums);
  if (threadIdx.y > 0 || !place.inside) return;
  for_lanes<kSums>([&](int s) {
    store<kWidth>(partials + (std::int64_t{place.row_block} * kSums + s) * tiles.channels + place.channel, sums[s]);
  });
}

template <int kSums>
struct ChannelSums {
  double of[kSums];
};

inline constexpr int kFinishChannels = 32, kFinishRows = 16;

/// Adds the partial sums of every channel and calls finish(channel, sums).
template <int kSums, class T, class Finish>
__global__ void __launch_bounds__(kFinishChannels* kFinishRows)
    finish_sums_kernel(int row_blocks, int channels, const T* partials, const __grid_constant__ Finish finish) {
  __shared__ double shared[kSums][kFinishRows][kFinishChannels];
  const int channel = static_cast<int>(blockIdx.x * kFinishChannels + threadIdx.x);
  ChannelSums<kSums> sums = {};
  if (channel < channels) {
#pragma unroll 4
    for (int block = static_cast<int>(threadIdx.y); block < row_blocks; block += kFinishRows) {
      const T* const from = partials + std::int64_t{block} * kSums * channels + channel;
      for_lanes<kSums>([&](int s) { sums.of[s] += static_cast<double>(from[std::int64_t{s} * channels]); });
    }
  }
  for_lanes<kSums>([&](int s) { shared[s][threadIdx.y][threadIdx.x] = sums.of[s]; });
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels) return;
  for (int i = 1; i < kFinishRows; ++i) {
    for_lanes<kSums>([&](int s) { sums.of[s] += shared[s][i][threadIdx.x]; });
  }
  finish(channel, sums);
}

/// Elements of the partial sums.
inline std::size_t partials_size(int sums, const ChannelTiles& tiles) {
  return static_cast<std::size_t>(sums) * tiles.row_blocks * static_cast<std::size_t>(tiles.channels);
}

/// finish(channel, sums) for every channel, from partial sums.
template <int kSums, class T, class Finish>
void finish_sums(const StreamHandles& stream, const ChannelTiles& tiles, const T* partials, const Finish& finish) {
  const auto blocks = static_cast<unsigned>((tiles.channels + kFinishChannels - 1) / kFinishChannels);
  launch(stream, {.grid = blocks, .block = dim3(kFinishChannels, kFinishRows)}, finish_sums_kernel<kSums, T, Finish>,
         static_cast<int>(tiles.row_blocks), tiles.channels, partials, finish);
}

}  // namespace braid::cuda
