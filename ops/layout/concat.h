#pragma once
// Joining and splitting along channels, the last axis.

#include "core/graph/op.h"

namespace braid::ops {

struct ConcatAttributes {
  int axis = -1;  ///< the last, or one counted from the first
  static constexpr std::string_view kNames[] = {"axis"};
};

/// One or more inputs [...,Cᵢ] that agree but for the channels → [...,ΣCᵢ]; or likewise along another axis.
class Concat final : public OpWith<Concat, ConcatAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "concat"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  std::optional<Recomputation> recompute() const override { return Recomputation{}; }
  OpAxes axes(const NodeValues& node) const override;
};

struct ChannelRange {
  std::int64_t begin;
  std::int64_t count;
  static constexpr std::string_view kNames[] = {"begin", "count"};
};

/// x [...,C] → [...,count], the channels from `begin` on.
class ChannelSlice final : public OpWith<ChannelSlice, ChannelRange> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "channel_slice"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"*_->*_"}; }
};

struct SliceSumAttributes {
  std::vector<std::int64_t> begins;
  std::int64_t count;
  static constexpr std::string_view kNames[] = {"begins", "count"};
};

/// Inputs [...,Cᵢ] that agree but for the channels → [...,count], the sum of `count` channels of each, from begins[i]
/// on, added from the first input to the last. The gradient of a value that was joined several times, in one pass and
/// without copies of the slices.
class SliceSum final : public OpWith<SliceSum, SliceSumAttributes> {
 public:
  /// Kernels add this many inputs at a time and read them all before they write, so a sum of no more may overwrite one
  /// of them.
  static constexpr std::size_t kGroup = 4;

  using OpWith::OpWith;
  std::string_view name() const override { return "slice_sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  OpAxes axes(const NodeValues&) const override { return {"*_->*_"}; }
};

}  // namespace braid::ops
