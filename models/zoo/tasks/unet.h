#pragma once
// U-Net (Ronneberger et al., 2015) for segmentation: a class for every pixel. Each level halves the size and doubles
// the channels; on the way up, every level also reads the features of the way down at its size. As in most current
// implementations, convolutions keep the size and have batch norms.

#include "models/layers/layers.h"

namespace braid::models {

struct UNetOptions {
  std::int64_t classes = 2;
  std::int64_t channels = 3;  ///< channels of the input image
  int levels = 4;             ///< times that the size is halved
  std::int64_t width = 64;    ///< channels of the first level
};

/// images [N,H,W,channels] → logits [N,H,W,classes]; H and W are multiples of 2^levels.
class UNet final : public Module {
 public:
  using Options = UNetOptions;
  explicit UNet(Context& context, const UNetOptions& options = {});
  Tensor forward(const Tensor& x) override;

 private:
  struct Level {
    Sequential* down;
    ConvTransposeLayer* up;
    Sequential* joined;
  };
  UNetOptions options_;
  std::vector<Level> levels_;
  Sequential& bottom_;
  ConvLayer& head_;
};

}  // namespace braid::models
