#include "ops/conv/normalized_conv2d.h"

#include "ops/common/check.h"

namespace braid::ops {

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

template <class Convolution, class Options>
void NormalizedConvolution<Convolution, Options>::infer(std::span<const ValueDesc> inputs,
                                                        std::vector<OutputDesc>& outputs) const {
  BRAID_CHECK(inputs.size() > kNormalizationInputs, ShapeError, "[", kName, "] expected more than ",
              kNormalizationInputs, " inputs, got ", inputs.size());
  std::vector<OutputDesc> y;
  BatchNormApply(BatchNormOptions{}).infer(inputs.first(kNormalizationInputs), y);
  const PlainConvolution plain(*this, inputs);
  plain.op->infer(plain.inputs, outputs);
}

/// Reading x instead of y makes no difference.
template <class Convolution, class Options>
Work NormalizedConvolution<Convolution, Options>::work(std::span<const ValueDesc> inputs,
                                                       std::span<const ValueDesc> outputs) const {
  const PlainConvolution plain(*this, inputs);
  return plain.op->work(plain.inputs, outputs);
}

template class NormalizedConvolution<Conv2d, Conv2dOptions>;
template class NormalizedConvolution<Conv2dBackwardFilter, GradientOf<Conv2dOptions>>;

}  // namespace braid::ops
