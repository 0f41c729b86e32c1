#include "ops/elementwise/weighted_sum.h"

#include "ops/common/check.h"

namespace braid::ops {

namespace {

/// Checks weights and x₀ …, which are all like the first.
void check_terms(std::string_view op, const ValueDesc& like, std::span<const ValueDesc> weights_and_terms) {
  const ValueDesc& weights = weights_and_terms[0];
  const auto terms = weights_and_terms.subspan(1);
  check_floating(op, "an input", like);
  check_value(op, "weights", weights, {like.dtype, {static_cast<std::int64_t>(terms.size())}});
  for (const ValueDesc& x : terms) check_value(op, "an input", x, like);
}

/// `per_term` operations for every element of every term; the first `others` inputs are no terms.
Work weighted_work(const Op& op, double per_term, std::size_t others, std::span<const ValueDesc> inputs,
                   std::span<const ValueDesc> outputs) {
  return op.Op::work(inputs, outputs)
      .with_flops(per_term * static_cast<double>(inputs.size() - others) *
                  static_cast<double>(inputs[others].shape.size()));
}

}  // namespace

void WeightedSum::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(inputs.size() >= 2, ShapeError, "[weighted_sum] expected weights and at least one input, got ",
              inputs.size(), " inputs");
  check_terms(name(), inputs[1], inputs);
  outputs.push_back({.dtype = inputs[1].dtype, .shape = inputs[1].shape, .reuses = 1});
}

Work WeightedSum::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return weighted_work(*this, 2, 1, inputs, outputs);
}

void WeightedSum::gradient(GradientContext& context) const {
  std::vector<ValueId> inputs{context.output_gradient(0)};
  for (int i = 0; i < context.input_count(); ++i) inputs.push_back(context.input(i));
  const ValueId first = context.record(std::make_shared<WeightedSumBackward>(), inputs);
  for (int i = 0; i < context.input_count(); ++i) context.set_input_gradient(i, first + i);
}

void WeightedSumBackward::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(inputs.size() >= 3, ShapeError,
              "[weighted_sum_backward] expected an output gradient, weights and at least one input, got ",
              inputs.size(), " inputs");
  check_terms(name(), inputs[0], inputs.subspan(1));
  outputs.push_back({.dtype = inputs[1].dtype, .shape = inputs[1].shape});
  for (std::size_t i = 2; i < inputs.size(); ++i) {
    outputs.push_back({.dtype = inputs[i].dtype, .shape = inputs[i].shape, .reuses = i == 2 ? 0 : -1});
  }
}

Work WeightedSumBackward::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return weighted_work(*this, 3, 2, inputs, outputs);
}

}  // namespace braid::ops
