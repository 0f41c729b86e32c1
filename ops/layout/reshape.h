#pragma once
// Another shape for the same bytes: a view, which costs nothing and is never launched.

#include "ops/common/shape_attributes.h"

namespace braid::ops {

/// x → the same elements in the same order as `shape`.
class Reshape final : public OpWith<Reshape, ShapeAttribute> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "reshape"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void gradient(GradientContext& context) const override;
  /// Rows of elements in order stay rows.
  OpAxes axes(const NodeValues&) const override { return {"n...->n...", 1}; }
};

}  // namespace braid::ops
