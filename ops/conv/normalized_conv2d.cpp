#include "ops/conv/normalized_conv2d.h"

#include "ops/common/check.h"

namespace braid::ops {

namespace {

void infer_normalized(const Op& op, std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) {
  BRAID_CHECK(inputs.size() > kNormalizationInputs, ShapeError, "[", op.name(), "] expected more than ",
              kNormalizationInputs, " inputs, got ", inputs.size());
  std::vector<OutputDesc> y;
  BatchNormApply(BatchNormOptions{}).infer(inputs.first(kNormalizationInputs), y);
  const PlainConvolution plain(op, inputs);
  plain.op->infer(plain.inputs, outputs);
}

/// Reading x instead of y makes no difference.
Work work_normalized(const Op& op, std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) {
  const PlainConvolution plain(op, inputs);
  return plain.op->work(plain.inputs, outputs);
}

}  // namespace

PlainConvolution::PlainConvolution(const Op& normalized, std::span<const ValueDesc> of_normalized)
    : inputs{of_normalized[0]} {
  const auto set = [&]<class T>(const T& whole) {
    op = std::make_shared<typename T::Plain>(whole.attributes().convolution);
    activation = whole.attributes().activation;
  };
  if (const auto* forward = dynamic_cast<const NormalizedConv2d*>(&normalized)) {
    set(*forward);
  } else {
    set(static_cast<const NormalizedConv2dBackwardFilter&>(normalized));
  }
  inputs.insert(inputs.end(), of_normalized.begin() + kNormalizationInputs, of_normalized.end());
}

void NormalizedConv2d::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  infer_normalized(*this, inputs, outputs);
}
Work NormalizedConv2d::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return work_normalized(*this, inputs, outputs);
}
void NormalizedConv2dBackwardFilter::infer(std::span<const ValueDesc> inputs, std::vector<OutputDesc>& outputs) const {
  infer_normalized(*this, inputs, outputs);
}
Work NormalizedConv2dBackwardFilter::work(std::span<const ValueDesc> inputs, std::span<const ValueDesc> outputs) const {
  return work_normalized(*this, inputs, outputs);
}

}  // namespace braid::ops
