#include <numeric>
#include <utility>

#include "ops/collective/collective.h"
#include "ops/collective/exchanged_rows.h"
#include "ops/collective/pieces.h"
#include "ops/collective/ranks.h"
#include "ops/elementwise/cuda/elementwise.cuh"
#include "ops/kernels/cuda/units.cuh"
#include "ops/optimizer/cuda/copy_tensors.cuh"

namespace braid::cuda {

namespace {

/// total ← total + x
template <class T>
struct Add {
  const T* x;
  T* total;
  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto sum = load<kWidth>(total + first);
    const auto added = load<kWidth>(x + first);
    for_lanes<kWidth>([&](int i) { sum[i] += added[i]; });
    store<kWidth>(total + first, sum);
  }
};

/// x ← x / divisor
template <class T>
struct Divide {
  T* x;
  T divisor;
  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    auto lanes = load<kWidth>(x + first);
    for_lanes<kWidth>([&](int i) { lanes[i] /= divisor; });
    store<kWidth>(x + first, lanes);
  }
};

/// Row i of a shard is row number · rows + i of the whole.
template <class T>
struct Rows {
  const T* x;
  const std::int32_t* number;
  T* y;
  std::int64_t size;
  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    y[first] = x[*number * size + first];
  }
};

/// Copies rows between the part of a shard and a buffer, a unit at a time.
template <class T>
struct Exchanged {
  ops::ExchangedRows rows;
  std::int64_t number, row_units;  // of the part
  T *part, *buffer;
  template <int kWidth>
  __device__ void apply(std::int64_t here) const {
    const std::int64_t row = here / row_units, there = rows.place(number, row) * row_units + here % row_units;
    rows.arrives ? part[here] = buffer[there] : buffer[there] = part[here];
  }
};

struct Number {
  const std::int32_t* divided;  // or null
  std::int32_t shards, number;
  std::int32_t* y;
  template <int kWidth>
  __device__ void apply(std::int64_t) const {
    *y = (divided == nullptr ? 0 : *divided * shards) + number;
  }
};

template <class T>
struct Zero {
  T* y;
  template <int kWidth>
  __device__ void apply(std::int64_t first) const {
    y[first] = T{};
  }
};

/// The tensors of a bucket lie one after another in a buffer, as many buffers as there are leaves.
template <class T>
struct Bucket {
  std::vector<std::int64_t> sizes, divisors;
  std::int64_t per_rank;  // leaves of every tensor
  int units;
  std::int64_t begin = 0;  // the first element of every tensor

  std::int64_t size() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }
  static std::int64_t bytes(std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); }

  void pack(const StreamHandles& stream, std::span<void* const> inputs, std::int64_t leaf, T* buffer) const {
    copy_tensors(stream, sizes.size(), [&](std::size_t t) {
      T* const place = std::exchange(buffer, buffer + sizes[t]);
      const auto i = t * static_cast<std::size_t>(per_rank) + static_cast<std::size_t>(leaf);
      return TensorCopy{place, at<const T>(inputs, i) + begin, bytes(sizes[t])};
    });
  }

  void unpack(const StreamHandles& stream, const T* buffer, std::span<void* const> outputs) const {
    copy_tensors(stream, sizes.size(), [&](std::size_t t) {
      return TensorCopy{at<T>(outputs, t) + begin, std::exchange(buffer, buffer + sizes[t]), bytes(sizes[t])};
    });
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      if (divisors[t] == 1) continue;
      for_each_element<1>(stream, units, sizes[t], true,
                          Divide<T>{at<T>(outputs, t) + begin, static_cast<T>(divisors[t])});
    }
  }

  /// Copies the elements of a single tensor that are not added, unless they are there already.
  void copy_others(const StreamHandles& stream, const void* input, void* output, std::int64_t size) const {
    if (input == output) return;
    const std::int64_t begins[] = {0, begin + sizes.front()}, ends[] = {begin, size};
    copy_tensors(stream, 2, [&](std::size_t i) {
      return TensorCopy{static_cast<T*>(output) + begins[i], static_cast<const T*>(input) + begins[i],
                        bytes(ends[i] - begins[i])};
    });
  }

  /// Adds leaves along the tree; leaf(i) is the address of one. The sum ends in the first.
  template <class Leaf>
  void add(const StreamHandles& stream, std::int64_t first, std::int64_t count, std::int64_t elements,
           const Leaf& leaf) const {
    if (count == 1) return;
    const std::int64_t left = ops::left_leaves(count);
    add(stream, first, left, elements, leaf);
    add(stream, first + left, count - left, elements, leaf);
    for_each_element<1>(stream, units, elements, true, Add<T>{leaf(first + left), leaf(first)});
  }

  /// Adds all leaves of all ranks, this rank's packed one after another at `own`, along the tree. The engine moves the
  /// bytes. Returns where this rank's piece of the sum is.
  T* add_exactly(const LaunchContext& context, Communicator* communicator, std::int64_t ranks, std::int64_t piece,
                 T* own, T* arrived) const {
    const StreamHandles& stream = handles(context);
    const std::int64_t leaves = ops::leaves_per_block(per_rank), blocks = per_rank / leaves, whole = ranks * piece;
    const auto packed_leaf = [=](std::int64_t i) { return own + i * whole; };
    for (std::int64_t b = 0; b < blocks; ++b) {
      add(stream, b * leaves, leaves, whole, packed_leaf);
      if (ranks > 1) communicator->all_to_all(packed_leaf(b * leaves), arrived + b * whole, bytes(piece), context);
    }
    const auto leaf = [=](std::int64_t i) {
      return ranks > 1 ? arrived + i % blocks * whole + i / blocks * piece : packed_leaf(i * leaves);
    };
    add(stream, 0, ranks * blocks, piece, leaf);
    return leaf(0);
  }
};

/// Works as on the CPU (ops/collective/cpu/collective.cpp); leaves are packed before they are added.
template <class T>
std::unique_ptr<Kernel> exact_all_reduce(const Bucket<T>& bucket, std::int64_t ranks, std::int64_t sliced,
                                         Communicator* communicator) {
  const std::int64_t blocks = bucket.per_rank / ops::leaves_per_block(bucket.per_rank);
  const std::int64_t piece = piece_of(bucket.size(), ranks), whole = ranks * piece, packed = bucket.per_rank * whole;
  return braid::function_kernel(static_cast<std::size_t>(Bucket<T>::bytes(packed + blocks * whole)),
                                [=](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
                                  const StreamHandles& stream = handles(context);
                                  T *const own = static_cast<T*>(workspace), *const arrived = own + packed;
                                  for (std::int64_t i = 0; i < bucket.per_rank; ++i)
                                    bucket.pack(stream, inputs, i, own + i * whole);
                                  const T* const sum =
                                      bucket.add_exactly(context, communicator, ranks, piece, own, arrived);
                                  if (ranks > 1) communicator->all_gather(sum, own, Bucket<T>::bytes(piece), context);
                                  bucket.unpack(stream, own, outputs);
                                  if (sliced > 0) bucket.copy_others(stream, inputs[0], outputs[0], sliced);
                                });
}

/// Copies the pieces of ranks [first, end) between tensors, tensor(t), and a buffer.
template <class Tensor>
void copy_pieces(const StreamHandles& stream, const ops::Pieces& pieces, std::int64_t first, std::int64_t end,
                 std::size_t bytes, const Tensor& tensor, void* buffer, bool into_buffer) {
  std::vector<TensorCopy> copies;
  for (std::int64_t rank = first; rank < end; ++rank) {
    pieces.of(rank, [&](std::size_t t, std::int64_t begin, std::int64_t count, std::int64_t place) {
      const auto size = static_cast<std::int64_t>(bytes);
      std::byte* const whole = static_cast<std::byte*>(tensor(t)) + begin * size;
      std::byte* const piece = static_cast<std::byte*>(buffer) + place * size;
      copies.push_back({into_buffer ? piece : whole, into_buffer ? whole : piece, count * size});
    });
  }
  copy_tensors(stream, copies.size(), [&](std::size_t c) { return copies[c]; });
}

}  // namespace

Implementations make_all_reduce(const KernelSpec& spec) {
  const ops::AllReduceAttributes sums = spec.attributes<ops::AllReduce>();
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    Bucket<T> bucket{.sizes = {},
                     .divisors = sums.divisors,
                     .per_rank = sums.per_rank(),
                     .units = spec.info->capacity,
                     .begin = sums.begin};
    for (const ValueDesc& output : spec.outputs) bucket.sizes.push_back(output.shape.size());
    const std::int64_t sliced = sums.count > 0 ? bucket.sizes.front() : 0;  // elements of the tensor
    if (sliced > 0) bucket.sizes.front() = sums.count;
    Communicator* const communicator = ops::communicator_of(spec, sums.along);
    if (sums.exact) return exact_all_reduce(bucket, sums.along.ranks, sliced, communicator);
    const std::int64_t size = bucket.size();
    return braid::function_kernel(
        static_cast<std::size_t>(Bucket<T>::bytes(size)),
        [=, dtype = spec.inputs[0].dtype](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
          T* const buffer = static_cast<T*>(workspace);
          bucket.pack(handles(context), inputs, 0, buffer);
          if (communicator != nullptr) communicator->all_reduce(buffer, size, dtype, context);
          bucket.unpack(handles(context), buffer, outputs);
          if (sliced == 0) return;
          bucket.copy_others(handles(context), inputs[0], outputs[0], sliced);
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
  const std::int64_t blocks = per_rank / ops::leaves_per_block(per_rank);
  const std::int64_t piece = pieces.size(), whole = ranks * piece, packed = per_rank * whole;
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    Bucket<T> bucket{.sizes = {}, .divisors = sums.divisors, .per_rank = per_rank, .units = spec.info->capacity};
    for (const ValueDesc& output : spec.outputs) bucket.sizes.push_back(output.shape.size());
    return braid::function_kernel(
        static_cast<std::size_t>(Bucket<T>::bytes(packed + blocks * whole + piece)),
        [=, dtype = spec.inputs[0].dtype](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
          const StreamHandles& stream = handles(context);
          T *const own = static_cast<T*>(workspace), *const arrived = own + packed,
                   *const total = arrived + blocks * whole;
          for_each_element<1>(stream, bucket.units, packed, true, Zero<T>{own});
          for (std::int64_t i = 0; i < per_rank; ++i) {
            const auto input = [&](std::size_t t) {
              return inputs[t * static_cast<std::size_t>(per_rank) + static_cast<std::size_t>(i)];
            };
            copy_pieces(stream, pieces, 0, ranks, sizeof(T), input, own + i * whole, true);
          }
          if (!sums.exact && ranks > 1) {
            communicator->reduce_scatter(own, total, piece, dtype, context);
            return bucket.unpack(stream, total, outputs);
          }
          bucket.unpack(stream, bucket.add_exactly(context, communicator, ranks, piece, own, arrived), outputs);
        });
  });
}

Implementations make_own_piece(const KernelSpec& spec) {
  const ops::MeshRanks& along = spec.attributes<ops::OwnPiece>();
  const std::int64_t ranks = along.ranks, rank = ops::place_among(spec, along);
  const std::size_t bytes = size_of(spec.inputs[0].dtype);
  return function_kernel([=, pieces = ops::Pieces{ranks, {spec.inputs[0].shape.size()}}, units = spec.info->capacity](
                             const StreamHandles& stream, auto inputs, auto outputs) {
    const std::int64_t count = pieces.size() * static_cast<std::int64_t>(bytes);
    for_each_element<1>(stream, units, count, true, Zero<std::uint8_t>{at<std::uint8_t>(outputs, 0)});
    // The buffer would begin with the pieces of the lower ranks.
    std::byte* const buffer = at<std::byte>(outputs, 0) - rank * count;
    const auto input = [&](std::size_t t) { return inputs[t]; };
    copy_pieces(stream, pieces, rank, rank + 1, bytes, input, buffer, true);
  });
}

Implementations make_gather_pieces(const KernelSpec& spec) {
  const ops::MeshRanks& along = spec.attributes<ops::GatherPieces>().along;
  const std::int64_t ranks = along.ranks;
  Communicator* const communicator = ops::communicator_of(spec, along);
  const ops::Pieces pieces{ranks, spec.attributes<ops::GatherPieces>().sizes};
  const std::size_t bytes = size_of(spec.inputs[0].dtype);
  const std::int64_t piece = pieces.size() * static_cast<std::int64_t>(bytes);
  return braid::function_kernel(static_cast<std::size_t>(ranks * piece), [=](const LaunchContext& context, auto inputs,
                                                                             auto outputs, void* workspace) {
    const StreamHandles& stream = handles(context);
    std::byte* const all = static_cast<std::byte*>(workspace);
    std::byte* const own = all + (ranks > 1 ? communicator->rank() * piece : 0);
    std::byte* place = own;
    copy_tensors(stream, inputs.size(), [&](std::size_t t) {
      const std::int64_t count = piece_of(pieces.sizes[t], ranks) * static_cast<std::int64_t>(bytes);
      return TensorCopy{std::exchange(place, place + count), inputs[t], count};
    });
    if (ranks > 1) communicator->all_gather(own, all, piece, context);
    const auto output = [&](std::size_t t) { return outputs[t]; };
    copy_pieces(stream, pieces, 0, ranks, bytes, output, all, false);
  });
}

Implementations make_all_gather(const KernelSpec& spec) {
  const auto bytes = static_cast<std::int64_t>(spec.inputs[0].bytes());
  const ops::MeshRanks& along = spec.attributes<ops::AllGather>();
  const std::int64_t ranks = along.ranks;
  Communicator* const communicator = ops::communicator_of(spec, along);
  return braid::function_kernel([=](const LaunchContext& context, auto inputs, auto outputs) {
    const std::int64_t own = bytes * static_cast<std::int64_t>(inputs.size());
    std::byte* const place = at<std::byte>(outputs, 0) + (ranks > 1 ? communicator->rank() * own : 0);
    copy_tensors(handles(context), inputs.size(), [&](std::size_t i) {
      return TensorCopy{place + static_cast<std::int64_t>(i) * bytes, inputs[i], bytes};
    });
    if (ranks > 1) communicator->all_gather(place, outputs[0], own, context);
  });
}

Implementations make_all_to_all(const KernelSpec& spec) {
  const ops::AllToAllAttributes& attributes = spec.attributes<ops::AllToAll>();
  Communicator* const communicator = ops::communicator_of(spec, attributes.along);
  const ops::ExchangedNode node(attributes, spec.inputs, spec.outputs);
  return braid::function_kernel(
      node.workspace_bytes(),
      [=, units = spec.info->capacity](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
        const auto copy = [&](const ops::ExchangedRows& rows, std::span<void* const> parts, std::byte* buffer) {
          for (std::size_t i = 0; i < parts.size(); ++i) {
            with_unit(static_cast<std::uintptr_t>(rows.bytes) | reinterpret_cast<std::uintptr_t>(parts[i]) |
                          reinterpret_cast<std::uintptr_t>(buffer),
                      [&]<class T>(T) {
                        const std::int64_t row_units = rows.bytes / static_cast<std::int64_t>(sizeof(T));
                        for_each_element<1>(handles(context), units, rows.count() * row_units, true,
                                            Exchanged<T>{rows, static_cast<std::int64_t>(i), row_units, at<T>(parts, i),
                                                         reinterpret_cast<T*>(buffer)});
                      });
          }
        };
        node.run(inputs, outputs, workspace, communicator, context, copy);
      });
}

Implementations make_from_neighbour(const KernelSpec& spec) {
  const auto bytes = static_cast<std::int64_t>(spec.inputs[0].bytes());
  Communicator* const communicator = ops::communicator_of(spec, spec.attributes<ops::FromNeighbour>().along);
  const auto from = static_cast<int>(spec.attributes<ops::FromNeighbour>().from);
  return braid::function_kernel([=](const LaunchContext& context, auto inputs, auto outputs) {
    if (outputs[0] != inputs[1]) {
      copy_tensors(handles(context), 1, [&](std::size_t) { return TensorCopy{outputs[0], inputs[1], bytes}; });
    }
    if (communicator != nullptr) communicator->shift(inputs[0], outputs[0], bytes, from, context);
  });
}

Implementations make_send(const KernelSpec& spec) { return ops::exchange_kernel(spec); }

Implementations make_receive(const KernelSpec& spec) { return ops::exchange_kernel(spec); }

Implementations make_shard_number(const KernelSpec& spec) {
  const auto& [index, per_rank, along] = spec.attributes<ops::ShardNumber>();
  const auto number = static_cast<std::int32_t>(ops::place_among(spec, along) * per_rank + index);
  return function_kernel([number, shards = static_cast<std::int32_t>(along.ranks * per_rank),
                          units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
    const auto* const divided = inputs.empty() ? nullptr : at<const std::int32_t>(inputs, 0);
    for_each_element<1>(stream, units, 1, true, Number{divided, shards, number, at<std::int32_t>(outputs, 0)});
  });
}

Implementations make_shard_rows(const KernelSpec& spec) {
  const auto make = [&]<class T>() {
    return function_kernel([size = spec.outputs[0].shape.size(), units = spec.info->capacity](
                               const StreamHandles& stream, auto inputs, auto outputs) {
      for_each_element<1>(stream, units, size, true,
                          Rows<T>{at<const T>(inputs, 0), at<const std::int32_t>(inputs, 1), at<T>(outputs, 0), size});
    });
  };
  switch (size_of(spec.outputs[0].dtype)) {
    case 1: return make.template operator()<std::uint8_t>();
    case 2: return make.template operator()<std::uint16_t>();
    case 4: return make.template operator()<std::uint32_t>();
    default: return make.template operator()<std::uint64_t>();
  }
}

}  // namespace braid::cuda
