#pragma once
// Joining and splitting along channels, the last axis.

#include "core/op.h"

namespace braid::ops {

/// One or more inputs [...,Cᵢ] that agree but for the channels → [...,ΣCᵢ].
class Concat final : public Op {
 public:
  std::string_view name() const override { return "concat"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
};

/// x [...,C] → [...,count], the channels from `begin` on.
class ChannelSlice final : public Op {
 public:
  ChannelSlice(std::int64_t begin, std::int64_t count) : begin_(begin), count_(count) {}
  std::int64_t begin() const { return begin_; }
  std::string_view name() const override { return "channel_slice"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override { hash.add(begin_).add(count_); }

 private:
  std::int64_t begin_;
  std::int64_t count_;
};

/// Inputs [...,Cᵢ] that agree but for the channels → [...,count], the sum of `count` channels of each, from begins[i]
/// on, added from the first input to the last. What a value that was joined several times gets as its gradient, in one
/// pass and without copies of the slices.
class SliceSum final : public Op {
 public:
  SliceSum(std::vector<std::int64_t> begins, std::int64_t count) : begins_(std::move(begins)), count_(count) {}
  std::span<const std::int64_t> begins() const { return begins_; }
  std::string_view name() const override { return "slice_sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;

 private:
  std::vector<std::int64_t> begins_;
  std::int64_t count_;
};

}  // namespace braid::ops
