#pragma once
// Elements chosen along an axis by indices that are data: rows of a table, classes of samples, places of a border.

#include "core/base/random.h"
#include "core/graph/op.h"

namespace braid::ops {

struct GatherAttributes {
  int axis;              ///< counted from the first
  std::int64_t nothing;  ///< an index that stands for no element: reads 0 and gets no gradient; kEveryIndex: none does
  static constexpr std::int64_t kEveryIndex = std::numeric_limits<std::int64_t>::min();
  static constexpr std::string_view kNames[] = {"axis", "nothing"};
};

/// x of any type, index i32 of the same rank → y like x with the index's extent along the axis: y[o,b,i] =
/// x[o,index[o,b,i],i]. An index has x's extents in front of the axis, or 1 in all of these, and likewise behind it:
/// then it holds for all places. An index outside [0, A) makes the kernel throw DataError.
class Gather final : public OpWith<Gather, GatherAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "gather"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
};

struct ScatterSumAttributes {
  GatherAttributes gather;
  std::int64_t extent;  ///< of the output along the axis
  static constexpr std::string_view kNames[] = {"gather", "extent"};
};

/// dy, index → dx, the sum of the elements of dy that have the same index, in their order; 0 where there is none. dy is
/// of a type that is computed in. The gradient of Gather, and of ones the one-hot code of the indices.
class ScatterSum final : public OpWith<ScatterSum, ScatterSumAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "scatter_sum"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  OpAxes axes(const NodeValues& node) const override;
};

}  // namespace braid::ops

namespace braid {

/// Where the elements of a gather are, for kernels: y [outer,chosen,inner] and x [outer,extent,inner].
struct GatherGeometry {
  std::int64_t outer = 1, extent, chosen, inner = 1;
  std::int64_t nothing;
  std::int64_t outer_step, inner_step;  ///< in the index; 0 if it holds for all

  GatherGeometry(const ops::GatherAttributes& attributes, std::int64_t extent_of_x, const Shape& y, const Shape& index)
      : extent(extent_of_x), chosen(y[attributes.axis]), nothing(attributes.nothing) {
    std::int64_t inner_of_index = 1, outer_of_index = 1;
    for (int axis = 0; axis < y.rank(); ++axis) {
      if (axis < attributes.axis) outer *= y[axis], outer_of_index *= index[axis];
      if (axis > attributes.axis) inner *= y[axis], inner_of_index *= index[axis];
    }
    inner_step = inner_of_index == inner && inner > 1 ? 1 : 0;
    outer_step = outer_of_index == outer && outer > 1 ? chosen * (inner_step == 1 ? inner : 1) : 0;
  }
  /// The place in the index of y[o,b,i].
  BRAID_HOST_DEVICE std::int64_t place(std::int64_t o, std::int64_t b, std::int64_t i) const {
    return o * outer_step + b * (inner_step == 1 ? inner : 1) + i * inner_step;
  }
  BRAID_HOST_DEVICE bool is_valid(std::int64_t index) const {
    return index == nothing || (index >= 0 && index < extent);
  }
};

}  // namespace braid
