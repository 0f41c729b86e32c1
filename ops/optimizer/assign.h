#pragma once
// New versions of persistent tensors by copying.

#include "core/graph/op.h"

namespace braid::ops {

/// Pairs of a parameter or state y and an x like it, of any dtype → the next version of every y: x.
class Assign final : public OpWith<Assign> {
 public:
  std::string_view name() const override { return "assign"; }
  void infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const override;
};

}  // namespace braid::ops
