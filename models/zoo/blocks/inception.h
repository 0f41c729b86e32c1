#pragma once
// Inception-v3 (Szegedy et al., 2016), as torchvision has it. The names of modules and branches are those of the
// paper's TensorFlow code.
//
// Stem: five convolutions and two max pools, which take 299x299 pixels to 35x35. For small images the convolutions have
// stride 1 and padding and there are no pools: 32x32 pixels arrive as they are, and are 15x15 and 7x7 where large ones
// are 17x17 and 8x8.
// `auxiliary` adds a classifier in training, of weight 0.4. It pools windows of 5x5 pixels with stride
// 3, or what is smaller than 17x17, as small images are, in equal shares to 5x5.
//
// Convolutions start with He's initialisation, linear layers normal with deviation 0.01.

#include "models/layers/mixed.h"

namespace braid::models {

struct InceptionV3Options {
  std::int64_t classes = 10;
  std::int64_t channels = 3;      ///< channels of the input image
  Stem stem = Stem::small_image;  ///< images of at least 7x7 pixels, or 75x75 with Stem::image
  double width = 1;               ///< multiplies the channels of all layers
  bool auxiliary = false;
};

/// images [N,H,W,channels] → logits [N,classes]
class InceptionV3 final : public AuxiliaryChain {
 public:
  using Options = InceptionV3Options;
  explicit InceptionV3(Context& context, const InceptionV3Options& options = {});
};

inline InceptionV3 inception_v3(Context& context, const InceptionV3Options& options = {}) {
  return InceptionV3(context, options);
}

}  // namespace braid::models
