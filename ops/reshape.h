#pragma once
// Another shape for the same bytes: a view, which costs nothing and is never launched.

#include "core/op.h"

namespace braid::ops {

/// x → the same elements in the same order as `shape`.
class Reshape final : public Op {
 public:
  explicit Reshape(const Shape& shape) : shape_(shape) {}
  std::string_view name() const override { return "reshape"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
  void hash(Hash& hash) const override;
  void gradient(GradientContext& context) const override;

 private:
  Shape shape_;
};

}  // namespace braid::ops
