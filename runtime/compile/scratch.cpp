#include "runtime/compile/scratch.h"

#include <algorithm>
#include <utility>

#include "core/base/align.h"
#include "core/base/random.h"
#include "scheduler/plan.h"

namespace braid {

namespace {

/// Numbers of random sign and mantissa, and the exponent of 1/2.
std::vector<std::uint64_t> random_tile(DType dtype) {
  constexpr std::size_t kWords = std::size_t{1} << 15;
  struct Bits {
    std::uint64_t random, exponent;
  };
  const Bits bits = dtype == DType::f64    ? Bits{0x800FFFFFFFFFFFFF, 0x3FE0000000000000}
                    : dtype == DType::f32  ? Bits{0x807FFFFF807FFFFF, 0x3F0000003F000000}
                    : dtype == DType::bf16 ? Bits{0x807F807F807F807F, 0x3F003F003F003F00}
                                           : Bits{0x83FF83FF83FF83FF, 0x3800380038003800};
  static const std::vector<std::uint64_t> random = [] {
    Generator generator(0);
    std::vector<std::uint64_t> words(kWords);
    for (std::uint64_t& word : words) {
      const std::uint64_t upper = generator.next();
      word = upper << 32 | generator.next();
    }
    return words;
  }();
  std::vector<std::uint64_t> tile = random;
  for (std::uint64_t& word : tile) word = (word & bits.random) | bits.exponent;
  return tile;
}

}  // namespace

Scratch::Scratch(const StepGraph& graph, NodeId node, std::size_t workspace_bytes) {
  const std::vector<ValueDesc> inputs = graph.input_descs(node);
  std::vector<OutputDesc> outputs;
  graph.node(node).op->infer(inputs, outputs);
  for (const ValueDesc& input : inputs) {
    inputs_.push_back(reserve(input.bytes()));
    if (is_floating(input.dtype)) floats_.push_back({inputs_.back(), input.bytes(), input.dtype});
  }
  for (const OutputDesc& output : outputs) {
    outputs_.push_back(output.overwrites >= 0 ? inputs_[output.overwrites]
                                              : reserve(ValueDesc{output.dtype, output.shape}.bytes()));
  }
  workspace_ = reserve(workspace_bytes);
}

std::size_t Scratch::reserve(std::size_t bytes) {
  return std::exchange(bytes_, bytes_ + align_up(bytes, std::size_t{scheduler::kArenaAlignment}));
}

void Scratch::fill(Backend& backend, void* base) const {
  for (const auto& [offset, bytes, dtype] : floats_) {
    const std::vector<std::uint64_t> tile = random_tile(dtype);
    const std::size_t most = tile.size() * sizeof tile[0];
    for (std::size_t at = 0; at < bytes; at += most) {
      backend.copy_to_device(static_cast<std::byte*>(base) + offset + at, tile.data(), std::min(most, bytes - at));
    }
  }
}

void Scratch::bind(Kernel& kernel, void* base) const {
  const auto addresses = [&](const std::vector<std::size_t>& offsets) {
    std::vector<void*> list;
    for (const std::size_t offset : offsets) list.push_back(static_cast<std::byte*>(base) + offset);
    return list;
  };
  kernel.bind(addresses(inputs_), addresses(outputs_), static_cast<std::byte*>(base) + workspace_);
  constexpr std::uint64_t kNoParameter = ~std::uint64_t{0};
  if (kernel.keeps_filter()) kernel.keep_filter(kNoParameter);
}

void clear_scratch(Backend& backend, Buffer& buffer, std::size_t bytes) {
  if (buffer.data() == nullptr || buffer.bytes() < bytes) {
    buffer = {};  // first release, then allocate: both together may not fit
    buffer = backend.allocate(bytes);
  }
  backend.clear(buffer.data(), bytes);
}

}  // namespace braid
