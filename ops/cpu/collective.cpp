#include "ops/collective.h"

#include <cstring>
#include <numeric>

#include "ops/cpu/loops.h"
#include "ops/function_kernel.h"

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

/// The tensors of a bucket lie one after another in a buffer.
template <class T>
struct Bucket {
  std::vector<std::int64_t> sizes, divisors;
  std::int64_t per_rank;  // leaves of every tensor

  std::int64_t size() const { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}); }

  /// Packs the sums of some leaves.
  void pack(std::span<void* const> inputs, std::int64_t first, std::int64_t leaves, T* buffer) const {
    for (std::size_t t = 0; t < sizes.size(); buffer += sizes[t++]) {
      const auto base = static_cast<std::int64_t>(t) * per_rank + first;
      sum_leaves(
          leaves, [&](std::int64_t i) { return at<const T>(inputs, static_cast<std::size_t>(base + i)); }, sizes[t],
          buffer);
    }
  }

  void unpack(const T* buffer, std::span<void* const> outputs) const {
    for (std::size_t t = 0; t < sizes.size(); buffer += sizes[t++]) {
      const T divisor = static_cast<T>(divisors[t]);
      for_each_element(0, sizes[t], [=, y = at<T>(outputs, t)](std::int64_t i) { y[i] = buffer[i] / divisor; });
    }
  }
};

/// The engine moves the bytes, and every rank adds its piece of all tensors: blocks from all ranks arrive by rank and
/// block, which is the order of the leaves of the tree.
template <class T>
std::unique_ptr<Kernel> exact_all_reduce(const Bucket<T>& bucket, std::int64_t ranks, Communicator* communicator) {
  const std::int64_t leaves = ops::leaves_per_block(bucket.per_rank), blocks = bucket.per_rank / leaves;
  const std::int64_t piece = (bucket.size() + ranks - 1) / ranks, whole = ranks * piece;
  const auto bytes = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(T)); };
  return function_kernel(static_cast<std::size_t>(bytes(2 * blocks * whole)),
                         [=](const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
                           T *const own = static_cast<T*>(workspace), *const arrived = own + blocks * whole;
                           for (std::int64_t b = 0; b < blocks; ++b) {
                             T* const block = own + b * whole;
                             bucket.pack(inputs, b * leaves, leaves, block);
                             std::fill(block + bucket.size(), block + whole, T{});
                             if (ranks > 1) communicator->all_to_all(block, arrived + b * whole, bytes(piece), context);
                           }
                           const T* const from = ranks > 1 ? arrived : own;
                           const auto leaf = [=](std::int64_t i) {
                             return from + i % blocks * whole + i / blocks * piece;
                           };
                           T* const total = ranks > 1 ? own + communicator->rank() * piece : arrived;
                           sum_leaves(ranks * blocks, leaf, piece, total);
                           if (ranks > 1) communicator->all_gather(total, own, bytes(piece), context);
                           bucket.unpack(ranks > 1 ? own : arrived, outputs);
                         });
}

}  // namespace

Implementations make_all_reduce(const KernelSpec& spec) {
  const auto& [ranks, shards, exact, divisors] = spec.attributes<ops::AllReduce>();
  BRAID_CHECK(ranks == 1 || spec.communicator != nullptr, Error, "[all_reduce] needs a communicator of ", ranks,
              " ranks");
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() -> std::unique_ptr<Kernel> {
    Bucket<T> bucket{.sizes = {}, .divisors = divisors, .per_rank = shards / ranks};
    for (const ValueDesc& output : spec.outputs) bucket.sizes.push_back(output.shape.size());
    if (exact) return exact_all_reduce(bucket, ranks, spec.communicator);
    const std::int64_t size = bucket.size();
    return function_kernel(static_cast<std::size_t>(size) * sizeof(T),
                           [=, dtype = spec.inputs[0].dtype, communicator = spec.communicator](
                               const LaunchContext& context, auto inputs, auto outputs, void* workspace) {
                             T* const buffer = static_cast<T*>(workspace);
                             bucket.pack(inputs, 0, 1, buffer);
                             if (communicator != nullptr) communicator->all_reduce(buffer, size, dtype, context);
                             bucket.unpack(buffer, outputs);
                           });
  });
}

Implementations make_all_gather(const KernelSpec& spec) {
  const std::size_t bytes = size_of(spec.inputs[0].dtype) * static_cast<std::size_t>(spec.inputs[0].shape.size());
  const std::int64_t ranks = spec.attributes<ops::AllGather>().ranks;
  BRAID_CHECK(ranks == 1 || spec.communicator != nullptr, Error, "[all_gather] needs a communicator of ", ranks,
              " ranks");
  return function_kernel(
      [=, communicator = spec.communicator](const LaunchContext& context, auto inputs, auto outputs) {
        const std::size_t own = bytes * inputs.size();
        std::byte* const whole = at<std::byte>(outputs, 0);
        std::byte* const place = whole + (ranks > 1 ? static_cast<std::size_t>(communicator->rank()) * own : 0);
        for (std::size_t i = 0; i < inputs.size(); ++i) std::memcpy(place + i * bytes, inputs[i], bytes);
        if (ranks > 1) communicator->all_gather(place, whole, static_cast<std::int64_t>(own), context);
      });
}

Implementations make_shard_number(const KernelSpec& spec) {
  const auto& [index, per_rank] = spec.attributes<ops::ShardNumber>();
  const std::int64_t rank = spec.communicator != nullptr ? spec.communicator->rank() : 0;
  return function_kernel([number = static_cast<std::int32_t>(rank * per_rank + index)](auto, auto outputs) {
    *at<std::int32_t>(outputs, 0) = number;
  });
}

Implementations make_shard_rows(const KernelSpec& spec) {
  const std::size_t bytes = size_of(spec.outputs[0].dtype) * static_cast<std::size_t>(spec.outputs[0].shape.size());
  return function_kernel([bytes](auto inputs, auto outputs) {
    const auto number = static_cast<std::size_t>(*at<const std::int32_t>(inputs, 1));
    std::memcpy(outputs[0], at<const std::byte>(inputs, 0) + number * bytes, bytes);
  });
}

}  // namespace braid::cpu
