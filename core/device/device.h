#pragma once
// A device is a small value: its type and index. Its backend describes what it can do.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device/link.h"

namespace braid {

enum class DeviceType : std::uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int index = 0;

  /// Parses "cpu", "cuda", "cuda:1", or "auto" (a CUDA device if one is usable, else the CPU).
  /// Throws DeviceError on any other text.
  static Device parse(std::string_view text);
  friend bool operator==(const Device&, const Device&) = default;
};

std::ostream& operator<<(std::ostream& out, const Device& device);

/// What planning needs to know about a device. Capacity is what concurrent nodes share: cores or SMs.
struct DeviceInfo {
  std::string name;
  int capacity = 1;
  std::uint64_t memory_bytes = 0;
  double flops_per_unit = 0;         ///< f32 FLOP/s of one core in a convolution, or of one SM in its inner loop
  double bytes_per_second = 0;       ///< memory bandwidth of the whole device
  double bytes_per_second_unit = 0;  ///< that one core or SM can draw from memory or, on a GPU, the L2 cache
  double launch_seconds = 0;         ///< fixed cost of a node
  double fork_seconds = 0;           ///< extra fixed cost of a node wider than one unit
  int max_width = 1;  ///< widest that can be chosen for a node: all cores on CPU; 1 where the kernel decides (CUDA)
  double matrix_flops_per_unit = 0;  ///< the same with tensor cores, in f16 and bf16; 0: no faster than f32
  bool matrix_f16_only = false;      ///< as in GPUs before Ampere, whose tensor cores take neither bf16 nor tf32
  /// Whether the hardware interleaves more work than there are units at no cost, as a GPU does with thread blocks.
  bool oversubscribes = false;
  bool avx512 = false;  ///< CPU: whether kernels use AVX-512
  /// What limits the thread blocks that one unit of a GPU holds at once (core/device/block_needs.h).
  int threads_per_unit = 0;
  std::size_t shared_bytes_per_unit = 0;
  Link link = {};  ///< to the other ranks, where there are any
  /// Links of groups of ranks that differ from `link`.
  std::vector<std::pair<RankGroup, Link>> group_links = {};
  /// CUDA: the device as cuDNN describes it (JSON), to plan for it on other machines; or empty.
  std::string properties = {};

  const Link& link_among(const RankGroup& group) const {
    const auto found = std::ranges::find(group_links, group, &std::pair<RankGroup, Link>::first);
    return found == group_links.end() ? link : found->second;
  }

  /// Makes it a GPU with these peaks of the whole device, in FLOP/s and bytes per second, of which good kernels reach a
  /// share. The capacity must be known.
  void set_gpu_rates(double flops, double matrix_flops, double memory_bandwidth);
  /// Whether tensor cores take f32 operands, rounded to tf32.
  bool has_tf32() const { return matrix_flops_per_unit > 0 && !matrix_f16_only; }
};

}  // namespace braid
