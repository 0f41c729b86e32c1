#pragma once
// The largest or smallest elements along the last axis, with their places: of one, the arg max; of all, a sort.

#include "core/base/random.h"
#include "core/graph/op.h"

namespace braid::ops {

struct TopKAttributes {
  std::int64_t k;
  bool largest;
  static constexpr std::string_view kNames[] = {"k", "largest"};
};

/// x [...,K] → its k largest (or smallest) elements [...,k] in their order, and their places, i32 [...,k]. The first of
/// equal elements comes first; a NaN is larger than everything, as in PyTorch.
class TopK final : public OpWith<TopK, TopKAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "top_k"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  Work work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues&) const override { return {"*_->*_"}; }
};

}  // namespace braid::ops

namespace braid::arithmetic {

/// Whether the element at a place comes before another one.
template <class T>
BRAID_HOST_DEVICE bool comes_before(bool largest, T x, std::int64_t place, T other, std::int64_t other_place) {
  const bool is_nan = x != x, other_is_nan = other != other;
  if (is_nan != other_is_nan) return is_nan == largest;
  if (is_nan || x == other) return place < other_place;
  return largest ? x > other : x < other;
}

}  // namespace braid::arithmetic
