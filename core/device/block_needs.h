#pragma once
// How many thread blocks of Braid's own CUDA kernels a unit of a GPU holds at once, from what nvcc made of them. Needs
// the description of a device, not the device.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "core/base/align.h"
#include "core/device/device.h"

namespace braid {

/// What one thread block needs of an SM. The default is enough for four in five of the kernels.
struct BlockNeeds {
  int threads = 256;
  int registers = 48;  ///< per thread
  std::size_t shared_bytes = 8192;
};

struct OpBlocks {
  std::string_view op;
  BlockNeeds needs;
};

/// The kernels in which the ops spend their time, compiled for sm_90, by op. Written by scripts/check_kernels.py
/// --update.
inline constexpr OpBlocks kOpBlocks[] = {
    // clang-format off
    {"accuracy", {256, 32, 0}},
    {"adam_update", {256, 44, 36}},
    {"adaptive_avg_pool2d", {256, 48, 0}},
    {"adaptive_avg_pool2d_backward", {256, 58, 0}},
    {"all_gather", {256, 32, 0}},
    {"all_reduce", {256, 32, 0}},
    {"all_to_all", {256, 38, 0}},
    {"assign", {256, 32, 0}},
    {"avg_pool2d", {256, 48, 0}},
    {"avg_pool2d_backward", {256, 54, 0}},
    {"batch_norm", {256, 72, 12296}},
    {"batch_norm_apply", {256, 64, 0}},
    {"batch_norm_backward", {256, 78, 12296}},
    {"batch_norm_inference", {256, 64, 0}},
    {"batch_norm_statistics", {256, 72, 12296}},
    {"blend", {256, 32, 0}},
    {"cast", {256, 22, 0}},
    {"channel_slice", {256, 20, 0}},
    {"channel_sum", {256, 72, 6152}},
    {"clip_factor", {256, 34, 80}},
    {"compress", {256, 56, 4792}},
    {"concat", {256, 20, 0}},
    {"cross_entropy", {256, 32, 0}},
    {"cross_entropy_backward", {256, 32, 0}},
    {"decompress", {256, 40, 4096}},
    {"dropout", {256, 53, 0}},
    {"elementwise", {256, 48, 20480}},
    {"fill", {256, 22, 0}},
    {"from_neighbour", {256, 32, 0}},
    {"gather", {256, 30, 0}},
    {"gather_pieces", {256, 32, 0}},
    {"global_avg_pool", {256, 40, 2048}},
    {"global_avg_pool_backward", {256, 28, 0}},
    {"group_norm", {256, 42, 96}},
    {"group_norm_backward", {256, 72, 12296}},
    {"interpolate", {256, 40, 0}},
    {"interpolate_backward", {256, 44, 0}},
    {"loss_scale_update", {256, 34, 44}},
    {"max_pool2d", {256, 58, 0}},
    {"max_pool2d_backward", {256, 56, 0}},
    {"own_piece", {256, 32, 0}},
    {"permute", {256, 38, 0}},
    {"random", {256, 40, 0}},
    {"reduce", {256, 44, 2048}},
    {"reduce_scatter", {256, 32, 0}},
    {"relu", {256, 32, 0}},
    {"relu6", {256, 32, 0}},
    {"relu6_backward", {256, 24, 0}},
    {"relu_backward", {256, 24, 0}},
    {"scale", {256, 32, 0}},
    {"scale_by", {256, 29, 0}},
    {"scatter_sum", {256, 32, 0}},
    {"sgd_update", {256, 32, 0}},
    {"shard_batch_norm", {256, 72, 12296}},
    {"shard_number", {256, 24, 0}},
    {"shard_rows", {256, 24, 0}},
    {"slice_sum", {256, 38, 0}},
    {"softmax", {256, 40, 0}},
    {"softmax_backward", {256, 62, 0}},
    {"sum", {256, 32, 0}},
    {"top_k", {256, 37, 0}},
    {"weighted_sum", {256, 32, 1024}},
    {"weighted_sum_backward", {256, 56, 1584}},
    {"window", {256, 38, 0}},
    // clang-format on
};

/// The needs of an op's kernels, or the default.
inline BlockNeeds block_needs(std::string_view op) {
  const auto found = std::ranges::find(kOpBlocks, op, &OpBlocks::op);
  return found == std::end(kOpBlocks) ? BlockNeeds{} : found->needs;
}

/// The blocks that one unit of a GPU holds at once, at least 1: the scarcest of threads, registers and shared memory
/// decides, as in NVIDIA's occupancy formulas (cuda_occupancy.h). Before Ampere a block's shared memory costs up to 1
/// KiB less.
inline int resident_blocks(const DeviceInfo& device, const BlockNeeds& needs) {
  constexpr int kWarp = 32, kRegisters = 65536, kQuarters = 4;  // a quarter of an SM has its own registers
  constexpr std::size_t kReserved = 1024, kGranularity = 128;   // bytes of a block's shared memory
  const int warps = (needs.threads + kWarp - 1) / kWarp;
  const int by_threads = device.threads_per_unit / kWarp / warps;
  const int by_registers = kRegisters / kQuarters / align_up(needs.registers * kWarp, 256) * kQuarters / warps;
  const auto by_shared = device.shared_bytes_per_unit / (align_up(needs.shared_bytes, kGranularity) + kReserved);
  return std::max(1, std::min({by_threads, by_registers, static_cast<int>(by_shared)}));
}

}  // namespace braid
