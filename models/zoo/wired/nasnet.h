#pragma once
// NASNet-A mobile (Zoph et al., 2018): the normal and the reduction cell of figure 4, four normal cells in each of
// three stages, 44 filters at first (1056 channels at the end). 5,289,978 parameters for 1000 classes. Every cell sees
// the outputs of the two cells before it, and its branches do not depend on each other: many small nodes for many
// streams.
//
// Stem: a 3x3 convolution with stride 2 and two reduction cells; for small images, as for CIFAR-10 in the paper, a 3x3
// convolution with stride 1 and three times as many channels as a cell has filters.
//
// Convolutions and pools with stride 2 are padded equally on both sides, where TensorFlow pads an even image at its end
// only. No drop path, as published for the mobile size. Names follow the common PyTorch port; convolutions start
// with He's initialisation.

#include "models/layers/layers.h"

namespace braid::models {

class NasNetCell;

/// Images have at least 3x3 pixels for Stem::image.
using NasNetOptions = NetworkOptions;

/// images [N,H,W,channels] → logits [N,classes]
class NasNetAMobile final : public Module {
 public:
  using Options = NasNetOptions;
  explicit NasNetAMobile(Context& context, const NasNetOptions& options = {});
  Tensor forward(const Tensor& x) override;

 private:
  NasNetOptions options_;
  ConvNormLayer* stem_;
  std::vector<NasNetCell*> cells_;
  DropoutLayer* dropout_;
  LinearLayer* classifier_;
};

inline NasNetAMobile nasnet_a_mobile(Context& context, const NasNetOptions& options = {}) {
  return NasNetAMobile(context, options);
}

}  // namespace braid::models
