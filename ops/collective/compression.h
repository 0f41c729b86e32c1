#pragma once
// Gradients that ranks exchange late, or compressed with error feedback: what a shard does not send stays in its
// residual, and is added to its next gradient (Seide et al., 2014; Stich et al., 2018; Karimireddy et al., 2019).

#include "core/base/random.h"
#include "core/comm/parallel_options.h"
#include "ops/collective/collective.h"

namespace braid::ops {

/// The shape of a stack of tensors.
Shape with_rows(std::int64_t rows, const Shape& shape);

/// A gradient [...] → the summand of each shard [shards,...], split along the first axis. It has no kernel: what a
/// shard, or a lone one, has is a view of its gradient.
class ToShards final : public OpWith<ToShards, Shards> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "to_shards"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  /// A gradient that is the same on all shards is the sum of equal parts.
  std::optional<Divided> divide(const Division& node) const override;
};

struct CompressionAttributes {
  Compression::Method method;
  double ratio;
  static constexpr std::string_view kNames[] = {"method", "ratio"};
};

/// The number of a step (i32 scalar), the gradient of each shard [V,...] in f32 or f64, their residuals [V,...] → their
/// messages, u8 [V,bytes], and the new residuals: gradient + residual − what is sent.
class Compress final : public OpWith<Compress, CompressionAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "compress"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  std::optional<Divided> divide(const Division& node) const override { return divide_by_tensors(node, 1); }
};

struct DecompressAttributes {
  Compression::Method method;
  double ratio;
  DType dtype;
  Shape shape;
  static constexpr std::string_view kNames[] = {"method", "ratio", "dtype", "shape"};
};

/// The messages of all shards [V,bytes] → the sum of what they say [shape].
class Decompress final : public OpWith<Decompress, DecompressAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "decompress"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
};

/// How a message lies in memory. Blocks of elements are compressed each by itself: first come numbers of the type of
/// the gradient (the chosen elements of all blocks, or a scale for each block), then codes: the places of the chosen
/// elements in their blocks (u16), or per element a byte (i8), or a bit, 1 if it is negative.
struct MessageFormat {
  static constexpr std::int64_t kBlock = 1024;

  Compression::Method method;
  double ratio;
  std::int64_t size;    ///< elements of the tensor
  std::int64_t number;  ///< bytes of a number

  MessageFormat(Compression::Method by, double share, std::int64_t elements, DType dtype)
      : method(by), ratio(share), size(elements), number(static_cast<std::int64_t>(size_of(dtype))) {}

  /// Whether some elements are sent, and others are not.
  BRAID_HOST_DEVICE bool chooses() const {
    return method == Compression::Method::top_k || method == Compression::Method::random_k;
  }
  BRAID_HOST_DEVICE std::int64_t blocks() const { return (size + kBlock - 1) / kBlock; }
  /// Elements of a block.
  BRAID_HOST_DEVICE std::int64_t length(std::int64_t block) const {
    return size - block * kBlock < kBlock ? size - block * kBlock : kBlock;
  }
  /// The number of chosen elements among `elements`: at least one.
  BRAID_HOST_DEVICE std::int64_t chosen(std::int64_t elements) const {
    const auto rounded = static_cast<std::int64_t>(ratio * static_cast<double>(elements) + 0.5);
    return rounded < 1 ? 1 : rounded < elements ? rounded : elements;
  }
  /// The first number of a block.
  BRAID_HOST_DEVICE std::int64_t first(std::int64_t block) const { return chooses() ? block * chosen(kBlock) : block; }
  BRAID_HOST_DEVICE std::int64_t numbers() const {
    if (size == 0) return 0;
    return first(blocks() - 1) + (chooses() ? chosen(length(blocks() - 1)) : 1);
  }
  BRAID_HOST_DEVICE std::int64_t used_bytes() const {
    const std::int64_t per_element = method == Compression::Method::sign ? blocks() * kBlock / 8 : size;
    return numbers() * number + (chooses() ? 2 * numbers() : per_element);
  }
  /// Ends with zeros, so that the numbers of the next message are aligned.
  BRAID_HOST_DEVICE std::int64_t bytes() const { return (used_bytes() + 7) / 8 * 8; }
};

}  // namespace braid::ops
