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

}  // namespace braid::ops
