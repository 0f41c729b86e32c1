#pragma once
// GoogLeNet (Szegedy et al., 2015) with batch normalisation, as torchvision has it: the branch that is 5x5 in the paper
// has a 3x3 convolution.
//
// Stem: a 7x7 convolution with stride 2 and a max pool; for small images a 3x3 convolution with stride 1 and no pool.
// `auxiliary` adds two classifiers in training, each of weight 0.3.
//
// Convolutions start with He's initialisation, linear layers normal with deviation 0.01.

#include "models/layers/mixed.h"

namespace braid::models {

struct GoogLeNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;      ///< channels of the input image
  Stem stem = Stem::small_image;  ///< images of at least 8x8 pixels, or 31x31 with Stem::image
  double width = 1;               ///< multiplies the channels of all layers
  bool auxiliary = false;
};

/// images [N,H,W,channels] → logits [N,classes]
class GoogLeNet final : public AuxiliaryChain {
 public:
  using Options = GoogLeNetOptions;
  explicit GoogLeNet(Context& context, const GoogLeNetOptions& options = {});
};

inline GoogLeNet googlenet(Context& context, const GoogLeNetOptions& options = {}) {
  return GoogLeNet(context, options);
}

}  // namespace braid::models
