#pragma once
// How the rows of an all-to-all (ops::AllToAll) lie in its buffers.

#include "core/comm/communicator.h"
#include "ops/collective/collective.h"
#include "ops/common/arithmetic.h"
#include "ops/layout/byte_rows.h"

namespace braid::ops {

/// The parts of the rank's shards [..., shards · extent, ...] as rows of bytes: for each index of the axes before the
/// exchanged one, a row for each shard. The buffer has a block for each pair of shards, ordered by rank, then by the
/// sending shard, then by the receiving one.
struct ExchangedRows {
  std::int64_t ranks, per_rank;  // per_rank: shards per rank
  bool arrives;                  // else they are sent
  std::int64_t repeats, bytes;   // rows per shard, and bytes of a row

  static ExchangedRows of(const ValueDesc& part, std::int64_t axis, std::int64_t ranks, std::int64_t per_rank,
                          bool arrives) {
    const ByteRows rows(part, static_cast<int>(axis));
    return {ranks, per_rank, arrives, rows.rows, rows.bytes / (ranks * per_rank)};
  }

  std::int64_t count() const { return repeats * ranks * per_rank; }
  std::int64_t buffer_bytes() const { return per_rank * count() * bytes; }
  /// Whether the part already has the order of the buffer.
  bool are_in_order() const { return per_rank == 1 && repeats <= 1; }
  /// The place in the buffer of a row of one of the parts.
  BRAID_HOST_DEVICE std::int64_t place(std::int64_t part, std::int64_t row) const {
    const std::int64_t repeat = row / (ranks * per_rank), shard = row % (ranks * per_rank), other = shard % per_rank;
    const std::int64_t sender = arrives ? other : part, receiver = arrives ? part : other;
    return ((shard / per_rank * per_rank + sender) * per_rank + receiver) * repeats + repeat;
  }
};

/// What a node sends and what it receives.
struct ExchangedNode {
  ExchangedRows sent, arriving;

  ExchangedNode(const AllToAllAttributes& node, std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs)
      : sent(ExchangedRows::of(inputs[0], node.to, node.along.ranks, std::ssize(inputs), false)),
        arriving(ExchangedRows::of(outputs[0], node.from, node.along.ranks, std::ssize(inputs), true)) {}

  std::size_t workspace_bytes() const {
    const bool arrives = sent.ranks > 1 && !arriving.are_in_order();  // a lone rank copies from what it would send
    const std::int64_t buffers = (sent.are_in_order() ? 0 : 1) + (arrives ? 1 : 0);
    return static_cast<std::size_t>(buffers * sent.buffer_bytes());
  }

  /// copy(rows, parts, buffer) copies rows between parts and buffer.
  template <class Copy>
  void run(std::span<void* const> inputs, std::span<void* const> outputs, void* workspace, Communicator* communicator,
           const LaunchContext& context, const Copy& copy) const {
    const std::int64_t bytes = sent.buffer_bytes();
    auto* const to_send = static_cast<std::byte*>(sent.are_in_order() ? inputs[0] : workspace);
    if (!sent.are_in_order()) copy(sent, inputs, to_send);
    std::byte* arrived = to_send;
    if (communicator != nullptr) {
      auto* const after = static_cast<std::byte*>(workspace) + (sent.are_in_order() ? 0 : bytes);
      arrived = arriving.are_in_order() ? static_cast<std::byte*>(outputs[0]) : after;
      communicator->all_to_all(to_send, arrived, bytes / sent.ranks, context);
    }
    if (arrived != outputs[0]) copy(arriving, outputs, arrived);
  }
};

}  // namespace braid::ops
