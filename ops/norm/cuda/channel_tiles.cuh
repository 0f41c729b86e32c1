#pragma once
// Sums over the rows of a matrix [rows,C]; batch normalisation takes any [...,C] as such a matrix. A block is a tile:
// up to 32 neighbouring vectors of channels, so that its reads are coalesced, times as many rows as it has threads
// left. Threads stride down the rows with their sums in registers and then add them up, within warps first. Tiles that
// share channels leave partial sums in the workspace; the last of them to finish adds these, in double precision. The
// order of all additions follows from the shape and the number of SMs, not from which tile is last.

#include "ops/kernels/cuda/arrival.cuh"
#include "ops/kernels/cuda/elements.cuh"
#include "ops/kernels/cuda/warp_reduce.cuh"

namespace braid::cuda {

/// The most vectors of channels side by side in tiles whose threads add up sums: a cache line of them.
template <int kWidth>
inline constexpr unsigned kSumsAcross = kWidth == 1 ? 32 : 8;

/// Blocks that add up sums of which an SM holds at least so many at once. Caps registers at 80.
inline constexpr int kSumBlocksAtOnce = 3;

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
    return {rows, channels, width, width == 1 ? kSumsAcross<1> : kSumsAcross<2>, 2, 2 * units};
  }

  LaunchShape launch_shape() const {
    return {.grid = column_blocks * row_blocks, .block = dim3(across, kThreads / across)};
  }
};

/// [...,C] as rows.
inline std::int64_t row_count(const Shape& shape) {
  const std::int64_t channels = shape[-1];
  return channels == 0 ? 0 : shape.size() / channels;
}

/// A thread's part of its tile.
template <int kWidth>
struct TilePlace {
  unsigned column_block, row_block;
  int first_channel;  ///< first channel of the tile
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
  if constexpr (kRows <= 2) {
    for (; e < end; e += step) use(e, read(e));
  } else {
    decltype(read(e)) rows[kRows - 1];
    for_lanes<kRows - 1>([&](int i) {
      if (e + i * step < end) rows[i] = read(e + i * step);
    });
    for_lanes<kRows - 1>([&](int i) {
      if (e + i * step < end) use(e + i * step, rows[i]);
    });
  }
}

/// The threads of a block as rows of `columns`, a power of two, and what groups of these rows have summed.
struct SumColumns {
  unsigned columns;
  __device__ unsigned group_threads() const { return columns > kWarp ? columns : kWarp; }
  __device__ unsigned groups() const { return kThreads / group_threads(); }
};
template <unsigned kMostColumns, int kSums, int kWidth, class T>
using GroupSums = Lanes<T, kWidth>[kThreads / kWarp][kSums][kMostColumns];

/// Adds up the sums of the threads of a column, within groups: at most one for each warp. Returns the sums of all
/// groups and columns, for all threads to read until the next call. All threads of the block must call it, and pass a
/// barrier between two calls.
template <unsigned kMostColumns, int kSums, int kWidth, class T>
__device__ auto sum_groups(const SumColumns& of, Lanes<T, kWidth> (&sums)[kSums])
    -> const GroupSums<kMostColumns, kSums, kWidth, T>& {
  __shared__ GroupSums<kMostColumns, kSums, kWidth, T> shared;
  for (unsigned lanes = kWarp / 2; lanes >= of.columns; lanes /= 2) {
    for_lanes<kSums>([&](int s) {
      for_lanes<kWidth>([&](int i) { sums[s][i] += __shfl_xor_sync(kAllLanes, sums[s][i], static_cast<int>(lanes)); });
    });
  }
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x, group = of.group_threads();
  if (thread % group < of.columns) {
    for_lanes<kSums>([&](int s) { shared[thread / group][s][thread % of.columns] = sums[s]; });
  }
  __syncthreads();
  return shared;
}

/// Adds up the sums of the threads with the same channels; those of the block's first row of threads get the totals.
/// All threads of the block must call it, with at most kSumsAcross<kWidth> of them side by side.
template <int kSums, int kWidth, class T>
__device__ void sum_down(Lanes<T, kWidth> (&sums)[kSums]) {
  const SumColumns columns{blockDim.x};
  const auto& of_groups = sum_groups<kSumsAcross<kWidth>>(columns, sums);
  if (threadIdx.y > 0) return;
  for_lanes<kSums>([&](int s) {
    sums[s] = of_groups[0][s][threadIdx.x];
    for (unsigned group = 1; group < columns.groups(); ++group) {
      const Lanes<T, kWidth> more = of_groups[group][s][threadIdx.x];
      for_lanes<kWidth>([&](int i) { sums[s][i] += more[i]; });
    }
  });
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

/// Calls finish(channel, sums) in one thread for each channel of the tile; of_group(group, s, c) is a part of sum s of
/// the tile's channel c.
template <int kSums, int kWidth, class OfGroup, class Finish>
__device__ void finish_channels(const ChannelTiles& tiles, const TilePlace<kWidth>& place, const SumColumns& columns,
                                const OfGroup& of_group, const Finish& finish) {
  const unsigned c = threadIdx.y * blockDim.x + threadIdx.x;
  const int channel = place.first_channel + static_cast<int>(c);
  if (c >= tiles.across * kWidth || channel >= tiles.channels) return;
  ChannelSums<kSums> sums = {};
#pragma unroll 4
  for (unsigned group = 0; group < columns.groups(); ++group) {
    for_lanes<kSums>([&](int s) { sums.of[s] += static_cast<double>(of_group(group, s, c)); });
  }
  finish(channel, sums);
}

/// Sums over all rows of the tile's channels, and finish(channel, sums), in one thread for each channel. For tiles that
/// have all rows of their channels. Ends with what `finish` wrote visible to the block.
template <int kSums, int kRows, int kWidth, class T, class Terms, class Finish>
__device__ void sum_and_finish(const ChannelTiles& tiles, const TilePlace<kWidth>& place, const Terms& terms,
                               const Finish& finish) {
  Lanes<T, kWidth> sums[kSums] = {};
  sum_rows<kSums, kRows>(tiles, place, terms, sums);
  const SumColumns columns{tiles.across};
  const auto& of_groups = sum_groups<kSumsAcross<kWidth>>(columns, sums);
  finish_channels<kSums>(
      tiles, place, columns,
      [&](unsigned group, int s, unsigned c) { return of_groups[group][s][c / kWidth].at[c % kWidth]; }, finish);
  __syncthreads();
}

/// Loads from the L2 cache, where other blocks have written.
template <int kWidth, class T>
__device__ Packed<T, kWidth> load_fresh(const T* from) {
  using W = typename Word<sizeof(Packed<T, kWidth>)>::Type;
  const W word = __ldcg(reinterpret_cast<const W*>(from));
  Packed<T, kWidth> packed;
  memcpy(&packed, &word, sizeof packed);
  return packed;
}

/// Sums over all rows, and finish(channel, sums) for every channel. partials [row blocks, kSums, C].
template <int kSums, int kRows, int kWidth, class T, class Terms, class Finish>
__global__ void __launch_bounds__(kThreads, kSumBlocksAtOnce)
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

  // Every thread takes one vector of partial sums of every so many tiles.
  constexpr int kPart = kWidth < kVectorWidth<T> ? kWidth : kVectorWidth<T>;
  const unsigned width = tiles.across * kWidth, thread = threadIdx.y * blockDim.x + threadIdx.x;
  const SumColumns columns{kSums * width / kPart};
  const unsigned at = thread % columns.columns * kPart, sum = at / width;
  const int channel = place.first_channel + static_cast<int>(at % width);
  Lanes<double, kPart> parts[1] = {};
  if (channel < tiles.channels) {
    const std::int64_t size = std::int64_t{kSums} * tiles.channels;
    for_rows<4>(
        thread / columns.columns * size + std::int64_t{sum} * tiles.channels + channel,
        kThreads / columns.columns * size, tiles.row_blocks * size,
        [&](std::int64_t e) { return load_fresh<kPart>(partials + e); },
        [&](std::int64_t, const Packed<T, kPart>& part) {
          for_lanes<kPart>([&](int i) { parts[0][i] += static_cast<double>(part.at[i]); });
        });
  }
  const auto& of_groups = sum_groups<kSums * kSumsAcross<kWidth> * kWidth / kPart>(columns, parts);
  finish_channels<kSums>(
      tiles, place, columns,
      [&](unsigned group, int s, unsigned c) {
        const unsigned i = static_cast<unsigned>(s) * width + c;
        return of_groups[group][0][i / kPart].at[i % kPart];
      },
      finish);
}

/// Elements of the partial sums.
inline std::size_t partials_size(int sums, const ChannelTiles& tiles) {
  return static_cast<std::size_t>(sums) * tiles.row_blocks * static_cast<std::size_t>(tiles.channels);
}

}  // namespace braid::cuda
