#include "ops/collective/collective.h"

#include <cstring>
#include <numeric>

#include "ops/collective/exchanged_rows.h"
#include "ops/collective/pieces.h"
#include "ops/collective/ranks.h"
#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"

namespace braid::cpu {

namespace {

constexpr std::int64_t kChunk = 1024;  // elements added at a time: a level of the tree stays in the first cache

/// total[0..size) = the sum of leaf(first), …, leaf(first + count − 1) from element `begin` on, along the tree.
template <class T, class Leaf>
void add_leaves(std::int64_t first, std::int64_t count, const Leaf& leaf, std::int64_t begin, std::int64_t size,
                T* total) {
  if (count == 1) {
    std::copy_n(leaf(first) + begin, size, total);
    return;
  }
  const std::int64_t left = ops::left_leaves(count);
  T right[kChunk];
  add_leaves(first, left, leaf, begin, size, total);
  add_leaves(first + left, count - left, leaf, begin, size, right);
  for_each_element(0, size, [=, r = &right[0]](std::int64_t i) { total[i] += r[i]; });
}

template <class T, class Leaf>
void sum_leaves(std::int64_t count, const Leaf& leaf, std::int64_t size, T* total) {
  for (std::int64_t begin = 0; begin < size; begin += kChunk) {
    add_leaves(0, count, leaf, begin, std::min(kChunk, size - begin), total + begin);
  }
}

/// total = this rank's piece of the sum over all ranks. pack(b, buffer) packs the sums of block b of its leaves. The
/// engine moves the bytes, and every rank adds its piece of all tensors: blocks from all ranks arrive by rank and
/// block, which is the order of the leaves of the tree.
template <class T, class Pack>
void add_exactly(const LaunchContext& context, Communicator* communicator, std::int64_t ranks, std::int64_t blocks,
                 std::int64_t piece, const Pack& pack, T* own, T* arrived, T* total) {
  const std::int64_t whole = ranks * piece, bytes = piece * static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t b = 0; b < blocks; ++b) {
    pack(b, own + b * whole);
    if (ranks > 1) communicator->all_to_all(own + b * whole, arrived + b * whole, bytes, context);
  }
  const T* const from = ranks > 1 ? arrived : own;
  const auto leaf = [=](std::int64_t i) { return from + i % blocks * whole + i / blocks * piece; };
  sum_leaves(ranks * blocks, leaf, piece, total);
}

/// The tensors of a bucket lie one after another in a buffer.
template <class T>
struct Bucket {
  std::vector<std::int64_t> sizes, divisors;
  std::int64_t per_rank;  // leaves of every tensor
  std::int64_t begin;     // the first element of every tensor

  std::int64_t size() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

  /// Packs the sums of some leaves.
  void pack(std::span<void* const> inputs, std::int64_t first, std::int64_t leaves, T* buffer) const {
    for (std::size_t t = 0; t < sizes.size(); buffer += sizes[t++]) {
      const auto base = static_cast<std::int64_t>(t) * per_rank + first;
      sum_leaves(
          leaves, [&](std::int64_t i) { return at<const T>(inputs, static_cast<std::size_t>(base + i)) + begin; },
          sizes[t], buffer);
    }
  }

  void unpack(const T* buffer, std::span<void* const> outputs) const {
    for (std::size_t t = 0; t < sizes.size(); buffer += sizes[t++]) {
      const T divisor = static_cast<T>(divisors[t]);
      for_each_element(0, sizes[t], [=, y = at<T>(outputs, t) + begin](std::int64_t i) { y[i] = buffer[i] / divisor; });
    }
  }

  /// Copies the elements of a single tensor that are not added, unless they are there already.
  void copy_others(const void* input, void* output, std::int64_t size) const {
    if (input == output) return;
    const T* const from = static_cast<const T*>(input);
    const std::int64_t end = begin + sizes.front();
    std::copy(from, from + begin, static_cast<T*>(output));
    std::copy(from + end, from + size, static_cast<T*>(output) + end);
  }
};

/// Sums of some leaves of every tensor, arranged by pieces; pieces are padded with zeros.
template <class T>
void pack_pieces(const ops::Pieces& pieces, std::span<void* const> inputs, std::int64_t per_rank, std::int64_t first,
                 std::int64_t leaves, T* buffer) {
  std::fill_n(buffer, pieces.ranks * pieces.size(), T{});
  for (std::int64_t rank = 0; rank < pieces.ranks; ++rank) {
    pieces.of(rank, [&](std::size_t t, std::int64_t begin, std::int64_t count, std::int64_t place) {
      const auto base = static_cast<std::int64_t>(t) * per_rank + first;
      sum_leaves(
          leaves, [&](std::int64_t i) { return at<const T>(inputs, static_cast<std::size_t>(base + i)) + begin; },
          count, buffer + place);
    });
  }
}

template <class T>
std::unique_ptr<Kernel> exact_all_reduce(const Bucket<T>& bucket, std::int64_t ranks, std::int64_t sliced,
                                         Communicator* communicator) {
  const std::int64_t leaves = ops::leaves_per_block(bucket.per_rank), blocks = bucket.per_rank / leaves;
  const std::int64_t piece = piece_of(bucket.size(), ranks), whole = ranks * piece;
  const auto bytes = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); };
  return function_kernel(static_cast<std::size_t>(bytes(2 * blocks * whole)),
                         [=](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
                           T *const own = static_cast<T*>(workspace), *const arrived = own + blocks * whole;
                           T* const total = ranks > 1 ? own + communicator->rank() * piece : arrived;
                           const auto pack = [&](std::int64_t b, T* block) {
                             bucket.pack(inputs, b * leaves, leaves, block);
                             std::fill(block + bucket.size(), block + whole, T{});
                           };
                           add_exactly(context, communicator, ranks, blocks, piece, pack, own, arrived, total);
                           if (ranks > 1) communicator->all_gather(total, own, bytes(piece), context);
                           bucket.unpack(ranks > 1 ? own : arrived, outputs);
                           if (sliced > 0) bucket.copy_others(inputs[0], outputs[0], sliced);
                         });
}

}  // namespace

Implementations make_all_reduce(const KernelSpec& spec) {
  const ops::AllReduceAttributes sums = spec.attributes<ops::AllReduce>();
  const std::int64_t ranks = sums.along.ranks;
  Communicator* const communicator = ops::communicator_of(spec, sums.along);
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    Bucket<T> bucket{.sizes = {}, .divisors = sums.divisors, .per_rank = sums.per_rank(), .begin = sums.begin};
    for (const ValueDesc& output : spec.outputs) bucket.sizes.push_back(output.shape.size());
    const std::int64_t sliced = sums.count > 0 ? bucket.sizes.front() : 0;  // elements of the tensor
    if (sliced > 0) bucket.sizes.front() = sums.count;
    if (sums.exact) return exact_all_reduce(bucket, ranks, sliced, communicator);
    const std::int64_t size = bucket.size();
    if (bucket.sizes.size() == 1) {  // in place, without copies to a buffer and back
      return function_kernel(
          0, [=, bytes = static_cast<std::size_t>(spec.outputs[0].shape.size()) * sizeof(T),
              dtype = spec.inputs[0].dtype](const LaunchContext& context, auto inputs, auto outputs, void*) {
            if (inputs[0] != outputs[0]) std::memcpy(outputs[0], inputs[0], bytes);
            T* const data = at<T>(outputs, 0) + bucket.begin;
            if (communicator != nullptr) communicator->all_reduce(data, size, dtype, context);
            if (bucket.divisors[0] > 1) bucket.unpack(data, outputs);
          });
    }
    return function_kernel(
        static_cast<std::size_t>(size) * sizeof(T),
        [=, dtype = spec.inputs[0].dtype](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
          T* const buffer = static_cast<T*>(workspace);
          bucket.pack(inputs, 0, 1, buffer);
          if (communicator != nullptr) communicator->all_reduce(buffer, size, dtype, context);
          bucket.unpack(buffer, outputs);
        });
  });
}

Implementations make_reduce_scatter(const KernelSpec& spec) {
  const ops::AllReduceAttributes sums = spec.attributes<ops::ReduceScatter>();
  const std::int64_t ranks = sums.along.ranks, per_rank = sums.per_rank();
  Communicator* const communicator = ops::communicator_of(spec, sums.along);
  ops::Pieces pieces{ranks, {}};
  for (std::size_t i = 0; i < spec.inputs.size(); i += static_cast<std::size_t>(per_rank)) {
    pieces.sizes.push_back(spec.inputs[i].shape.size());
  }
  const std::int64_t leaves = ops::leaves_per_block(per_rank), blocks = per_rank / leaves;
  const std::int64_t piece = pieces.size(), whole = ranks * piece;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    Bucket<T> results{.sizes = {}, .divisors = sums.divisors, .per_rank = 1, .begin = 0};
    for (const ValueDesc& output : spec.outputs) results.sizes.push_back(output.shape.size());
    return function_kernel(
        sizeof(T) * static_cast<std::size_t>(2 * blocks * whole + piece),
        [=, dtype = spec.inputs[0].dtype](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
          T *const own = static_cast<T*>(workspace), *const arrived = own + blocks * whole;
          T* const total = arrived + blocks * whole;
          const auto pack = [&](std::int64_t b, T* block) {
            pack_pieces(pieces, inputs, per_rank, b * leaves, leaves, block);
          };
          if (!sums.exact && ranks > 1) {
            pack(0, own);
            communicator->reduce_scatter(own, total, piece, dtype, context);
          } else {
            add_exactly(context, communicator, ranks, blocks, piece, pack, own, arrived, total);
          }
          results.unpack(total, outputs);
        });
  });
}

Implementations make_own_piece(const KernelSpec& spec) {
  const ops::MeshRanks& along = spec.attributes<ops::OwnPiece>();
  const std::int64_t ranks = along.ranks, rank = ops::place_among(spec, along);
  const std::size_t bytes = size_of(spec.inputs[0].dtype);
  return function_kernel([=, pieces = ops::Pieces{ranks, {spec.inputs[0].shape.size()}}](auto inputs, auto outputs) {
    std::memset(outputs[0], 0, static_cast<std::size_t>(pieces.size()) * bytes);
    pieces.of(rank, [&](std::size_t, std::int64_t begin, std::int64_t count, std::int64_t) {
      std::memcpy(outputs[0], at<const std::byte>(inputs, 0) + static_cast<std::size_t>(begin) * bytes,
                  static_cast<std::size_t>(count) * bytes);
    });
  });
}

Implementations make_gather_pieces(const KernelSpec& spec) {
  const ops::MeshRanks& along = spec.attributes<ops::GatherPieces>().along;
  const std::int64_t ranks = along.ranks;
  Communicator* const communicator = ops::communicator_of(spec, along);
  const std::size_t bytes = size_of(spec.inputs[0].dtype);
  const ops::Pieces pieces{ranks, spec.attributes<ops::GatherPieces>().sizes};
  const std::size_t piece = bytes * static_cast<std::size_t>(pieces.size());
  return function_kernel(piece * static_cast<std::size_t>(ranks), [=](const LaunchContext& context, auto inputs,
                                                                      auto outputs, void* workspace) {
    std::byte* const all = static_cast<std::byte*>(workspace);
    std::byte* const own = all + (ranks > 1 ? piece * static_cast<std::size_t>(communicator->rank()) : 0);
    std::byte* place = own;
    for (std::size_t t = 0; t < pieces.sizes.size(); ++t) {
      const std::size_t count = bytes * static_cast<std::size_t>(piece_of(pieces.sizes[t], ranks));
      std::memcpy(place, inputs[t], count);
      place += count;
    }
    if (ranks > 1) communicator->all_gather(own, all, static_cast<std::int64_t>(piece), context);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      pieces.of(rank, [&](std::size_t t, std::int64_t begin, std::int64_t count, std::int64_t from) {
        std::memcpy(at<std::byte>(outputs, t) + static_cast<std::size_t>(begin) * bytes,
                    all + static_cast<std::size_t>(from) * bytes, static_cast<std::size_t>(count) * bytes);
      });
    }
  });
}

Implementations make_all_gather(const KernelSpec& spec) {
  const std::size_t bytes = spec.inputs[0].bytes();
  const ops::MeshRanks& along = spec.attributes<ops::AllGather>();
  const std::int64_t ranks = along.ranks;
  Communicator* const communicator = ops::communicator_of(spec, along);
  return function_kernel([=](const LaunchContext& context, auto inputs, auto outputs) {
    const std::size_t own = bytes * inputs.size();
    std::byte* const whole = at<std::byte>(outputs, 0);
    std::byte* const place = whole + (ranks > 1 ? static_cast<std::size_t>(communicator->rank()) * own : 0);
    for (std::size_t i = 0; i < inputs.size(); ++i) std::memcpy(place + i * bytes, inputs[i], bytes);
    if (ranks > 1) communicator->all_gather(place, whole, static_cast<std::int64_t>(own), context);
  });
}

Implementations make_all_to_all(const KernelSpec& spec) {
  const ops::AllToAllAttributes& attributes = spec.attributes<ops::AllToAll>();
  Communicator* const communicator = ops::communicator_of(spec, attributes.along);
  const ops::ExchangedNode node(attributes, spec.inputs, spec.outputs);
  return function_kernel(node.workspace_bytes(), [=](const LaunchContext& context, auto inputs, auto outputs,
                                                     void* workspace) {
    const auto copy = [](const ops::ExchangedRows& rows, std::span<void* const> parts, std::byte* buffer) {
      for (std::size_t part = 0; part < parts.size(); ++part) {
        for (std::int64_t row = 0; row < rows.count(); ++row) {
          std::byte* const here = at<std::byte>(parts, part) + row * rows.bytes;
          std::byte* const there = buffer + rows.place(static_cast<std::int64_t>(part), row) * rows.bytes;
          std::memcpy(rows.arrives ? here : there, rows.arrives ? there : here, static_cast<std::size_t>(rows.bytes));
        }
      }
    };
    node.run(inputs, outputs, workspace, communicator, context, copy);
  });
}

Implementations make_send(const KernelSpec& spec) { return ops::exchange_kernel(spec); }

Implementations make_receive(const KernelSpec& spec) { return ops::exchange_kernel(spec); }

Implementations make_shard_number(const KernelSpec& spec) {
  const auto& [index, per_rank, along] = spec.attributes<ops::ShardNumber>();
  const auto number = static_cast<std::int32_t>(ops::place_among(spec, along) * per_rank + index);
  return function_kernel(
      [number, shards = static_cast<std::int32_t>(along.ranks * per_rank)](auto inputs, auto outputs) {
        const std::int32_t before = inputs.empty() ? 0 : *at<const std::int32_t>(inputs, 0);
        *at<std::int32_t>(outputs, 0) = before * shards + number;
      });
}

Implementations make_shard_rows(const KernelSpec& spec) {
  const std::size_t bytes = spec.outputs[0].bytes();
  return function_kernel([bytes](auto inputs, auto outputs) {
    const auto number = static_cast<std::size_t>(*at<const std::int32_t>(inputs, 1));
    std::memcpy(outputs[0], at<const std::byte>(inputs, 0) + number * bytes, bytes);
  });
}

Implementations make_from_neighbour(const KernelSpec& spec) {
  const auto bytes = static_cast<std::int64_t>(spec.inputs[0].bytes());
  const auto& [along, from] = spec.attributes<ops::FromNeighbour>();
  Communicator* const communicator = ops::communicator_of(spec, along);
  return function_kernel([=, from = static_cast<int>(from)](const LaunchContext& context, auto inputs, auto outputs) {
    if (outputs[0] != inputs[1]) std::memcpy(outputs[0], inputs[1], static_cast<std::size_t>(bytes));
    if (communicator != nullptr) communicator->shift(inputs[0], outputs[0], bytes, from, context);
  });
}

}  // namespace braid::cpu
