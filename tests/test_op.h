#pragma once
// Nodes of graphs whose ops do not matter.

#include "core/graph/op.h"

namespace braid::testing {

struct TestAttributes {
  std::vector<OutputDesc> outputs;
  Work work = {};
  static constexpr std::string_view kNames[] = {"outputs", "work"};
};

/// An op whose outputs the test specifies.
class TestOp final : public OpWith<TestOp, TestAttributes> {
 public:
  using OpWith::OpWith;
  std::string_view name() const override { return "test"; }
  void infer(std::span<const ValueDesc>, std::vector<OutputDesc>& outputs) const override {
    outputs.insert(outputs.end(), attributes_.outputs.begin(), attributes_.outputs.end());
  }
  Work work(std::span<const ValueDesc>, std::span<const ValueDesc>) const override { return attributes_.work; }
};

}  // namespace braid::testing
