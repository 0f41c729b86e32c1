#include "scheduler/costs/matrix_kernel.h"

#include <algorithm>
#include <cmath>

namespace braid::scheduler {
namespace {

/// Tiles that cuBLAS and cuDNN have kernels for, by the names of the kernels: "volta_scudnn_128x32", "sm80_xmma_…
/// 64x64".
struct Tile {
  int rows, columns;
  double elements() const { return static_cast<double>(rows) * columns; }
};
constexpr Tile kTiles[] = {{128, 128}, {128, 64}, {64, 128}, {64, 64}, {128, 32}, {32, 128}};

/// The sums of two tiles of 128 x 128 fill half of an SM's registers; the operands take most of the rest.
constexpr double kResidentElements = 2 * 128 * 128;
/// The least depth per block where sums over the depth are split.
constexpr double kLeastDepth = 1024;

MatrixKernel matrix_kernel(const Work& work, const Tile& tile, double parts, const DeviceInfo& device,
                           double flops_per_unit, double element_bytes) {
  const double capacity = device.capacity;
  const double blocks =
      work.products * std::ceil(work.rows / tile.rows) * std::ceil(work.columns / tile.columns) * parts;
  const double depth = std::ceil(work.depth / parts);
  // The time that a block needs its SM's arithmetic and its SM's path to the L2 cache. A block alone waits for one
  // before the other; several blocks on an SM hide each other's waits.
  const double compute = 2 * tile.elements() * depth / flops_per_unit;
  const double fetch = (tile.rows + tile.columns) * depth * element_bytes / device.bytes_per_second_unit;
  const double alone = compute + fetch;
  // The SM with most blocks runs them in waves of as many as it has room for.
  const double resident = kResidentElements / tile.elements(), busiest = std::ceil(blocks / capacity);
  const double waves = std::floor(busiest / resident), last = busiest - waves * resident;
  const auto wave = [&](double count) { return count == 0 ? 0 : std::max(alone, count * std::max(compute, fetch)); };
  // The parts of a split sum are written, and added up by a second kernel.
  const double sums = parts > 1 ? (parts + 1) * work.products * work.rows * work.columns * sizeof(float) : 0;
  const double adding = parts > 1 ? device.launch_seconds + sums / device.bytes_per_second : 0;
  const double memory = work.bytes / device.bytes_per_second;
  MatrixKernel kernel;
  kernel.seconds = std::max(waves * wave(resident) + wave(last), memory) + adding;
  // The scarcest of arithmetic, cache, registers and memory, over the whole time: the last wave leaves some to others.
  const double slots = (waves * resident + last) > 0 ? blocks / (std::ceil(busiest / resident) * resident) : 0;
  kernel.units = std::max(
      {blocks * compute / kernel.seconds, blocks * fetch / kernel.seconds, slots, capacity * memory / kernel.seconds});
  return kernel;
}

}  // namespace

bool is_tiled(const Work& work) {
  constexpr double kFew = 8;
  return work.products > 0 && std::min(work.rows, work.columns) >= kFew;
}

MatrixKernel fastest_matrix_kernel(const Work& work, const DeviceInfo& device, double flops_per_unit,
                                   double element_bytes) {
  MatrixKernel best;
  for (const Tile& tile : kTiles) {
    for (double parts = 1; parts == 1 || (work.splits && work.depth / parts >= kLeastDepth); parts *= 2) {
      const MatrixKernel kernel = matrix_kernel(work, tile, parts, device, flops_per_unit, element_bytes);
      if (best.seconds == 0 || kernel.seconds < best.seconds) best = kernel;
    }
  }
  return best;
}

}  // namespace braid::scheduler
