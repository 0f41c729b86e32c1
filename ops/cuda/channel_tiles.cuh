#pragma once
// Sums over the rows of a matrix [rows,C], which is what any [...,C] is to a batch normalisation. A block is a tile: up
// to 32 neighbouring vectors of channels, so that its reads are coalesced, times as many rows as it has threads left.
// Threads stride down the rows with their sums in registers and then add them up in shared memory. Tiles that share
// channels leave partial sums in the workspace; the last of them to finish adds these, in double precision. The order
// of all additions follows from the shape and the number of SMs, not from which tile is last.

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
    const auto most = column_blocks > kArrivalCounters ? 1 : std::int64_t{most_blocks} / std::max(1u, column_blocks);
    row_blocks = static_cast<unsigned>(
        std::clamp((rows + rows_per_block - 1) / rows_per_block, std::int64_t{1}, std::max(std::int64_t{1}, most)));
  }

  /// Tiles for column_sums_kernel: narrow, because the last tile of a column adds what its other tiles leave, but not
  /// narrower than a cache line; and two blocks to an SM, whose reads in flight cover the latency of memory.
  static ChannelTiles for_sums(std::int64_t rows, std::int64_t channels, int width, int units) {
    return {rows, channels, width, width == 1 ? 32u : 8u, 2, 2 * units};
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
  unsigned column_block, row_block;
  int first_channel;  ///< of the tile
  int channel;        ///< the first of kWidth
  bool inside;        ///< the channels exist
  std::int64_t row;   ///< the first
  std::int64_t step;  ///< from row to row

  __device__ explicit TilePlace(const ChannelTiles& tiles)
      : column_block(blockIdx.x % tiles.column_blocks),
        row_block(blockIdx.x / tiles.column_blocks),
        first_channel(static_cast<int>(column_block * tiles.across * kWidth)),
        channel(first_channel + static_cast<int>(threadIdx.x) * kWidth),
        inside(channel < tiles.channels),
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
/// Returns the totals for all threads to read after the next barrier: [sum·kWidth + lane][threadIdx.x]. All threads of
/// the block must call it, and no more than once.
template <int kSums, int kWidth, class T>
__device__ auto sum_down(Lanes<T, kWidth> (&sums)[kSums]) -> const T (&)[kSums * kWidth][kThreads] {
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
  return shared;
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

template <int kSums>
struct ChannelSums {
  double of[kSums];
};

/// Sums over all rows of the tile's channels, and finish(channel, sums), in one thread for each channel. For tiles that
/// have all rows of their channels. Ends with what `finish` wrote visible to the block.
template <int kSums, int kRows, int kWidth, class T, class Terms, class Finish>
__device__ void sum_and_finish(const ChannelTiles& tiles, const TilePlace<kWidth>& place, const Terms& terms,
                               const Finish& finish) {
  Lanes<T, kWidth> sums[kSums] = {};
  sum_rows<kSums, kRows>(tiles, place, terms, sums);
  const auto& totals = sum_down(sums);
  __syncthreads();
  const unsigned i = threadIdx.y * blockDim.x + threadIdx.x;
  const int channel = place.first_channel + static_cast<int>(i);
  if (i < tiles.across * kWidth && channel < tiles.channels) {
    ChannelSums<kSums> of;
    for_lanes<kSums>([&](int s) { of.of[s] = static_cast<double>(totals[s * kWidth + i % kWidth][i / kWidth]); });
    finish(channel, of);
  }
  __syncthreads();
}

/// True in all threads of the last of `blocks` blocks to call it, which then sees all that they wrote before. The
/// counter is 0 before the first call and after the last.
__device__ inline bool is_last_to_arrive(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0 && threadIdx.y == 0) last = blocks == 1 || atomicInc(counter, blocks - 1) == blocks - 1;
  __syncthreads();
  __threadfence();
  return last;
}

/// Sums over all rows, and finish(channel, sums) for every channel. partials [row blocks, kSums, C].
template <int kSums, int kRows, int kWidth, class T, class Terms, class Finish>
__global__ void __launch_bounds__(kThreads)
    column_sums_kernel(const __grid_constant__ ChannelTiles tiles, const __grid_constant__ Terms terms,
                       const __grid_constant__ Finish finish, T* partials, unsigned* arrivals) {
  const TilePlace<kWidth> place(tiles);
  {
    Lanes<T, kWidth> sums[kSums] = {};
    sum_rows<kSums, kRows>(tiles, place, terms, sums);
    sum_down(sums);
    if (threadIdx.y == 0 && place.inside) {
      for_lanes<kSums>([&](int s) {
        store<kWidth>(partials + (std::int64_t{place.row_block} * kSums + s) * tiles.channels + place.channel, sums[s]);
      });
    }
  }
  if (!is_last_to_arrive(arrivals + place.column_block, tiles.row_blocks)) return;

  // Neighbouring threads take neighbouring channels; as often as the block has more threads, they share the row blocks.
  __shared__ double shared[kSums][kThreads];
  const unsigned width = tiles.across * kWidth, thread = threadIdx.y * blockDim.x + threadIdx.x;
  const int channel = place.first_channel + static_cast<int>(thread % width);
  ChannelSums<kSums> sums = {};
  if (channel < tiles.channels) {
#pragma unroll 8
    for (unsigned block = thread / width; block < tiles.row_blocks; block += kThreads / width) {
      const T* const from = partials + std::int64_t{block} * kSums * tiles.channels + channel;
      for_lanes<kSums>(
          [&](int s) { sums.of[s] += static_cast<double>(__ldcg(from + std::int64_t{s} * tiles.channels)); });
    }
  }
  for_lanes<kSums>([&](int s) { shared[s][thread] = sums.of[s]; });
  __syncthreads();
  if (thread >= width || channel >= tiles.channels) return;
  for (unsigned i = thread + width; i < kThreads; i += width) {
    for_lanes<kSums>([&](int s) { sums.of[s] += shared[s][i]; });
  }
  finish(channel, sums);
}

/// Elements of the partial sums.
inline std::size_t partials_size(int sums, const ChannelTiles& tiles) {
  return static_cast<std::size_t>(sums) * tiles.row_blocks * static_cast<std::size_t>(tiles.channels);
}

}  // namespace braid::cuda
