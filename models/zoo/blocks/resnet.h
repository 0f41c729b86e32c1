#pragma once
// Residual networks (He et al., 2016): the CIFAR form with three stages of basic blocks, and the ImageNet form v1.5
// with four stages of basic or bottleneck blocks (the stride sits in the 3x3 convolution), for large or small images.
// ResNeXt (Xie et al., 2017) is the ImageNet form whose bottlenecks have grouped 3x3 convolutions.
//
// Stem of the ImageNet form: a 7x7 convolution with stride 2 and a 3x3 max pool with stride 2; for small images a 3x3
// convolution with stride 1 and no pool.

#include "models/layers/layers.h"

namespace braid::models {

struct ResNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 3;        ///< channels of the input image
  bool zero_init_residual = false;  ///< the last batch norm of each block starts at scale 0
  Stem stem = Stem::small_image;    ///< ImageNet form only
  double width = 1;                 ///< multiplies the channels of all layers
  // Bottlenecks only: in the first stage, the 3x3 convolution has groups·width_per_group channels, twice as many in
  // each next one.
  std::int64_t groups = 1;
  std::int64_t width_per_group = 64;
};

/// images [N,H,W,channels] → logits [N,classes]
class ResNet final : public Chain {
 public:
  /// CIFAR form: depth is 20, 32, 44, 56 or 110 (6n + 2). ImageNet form: 18, 34, 50, 101 or 152.
  /// Throws Error on another depth, or on groups where there are no bottlenecks.
  ResNet(Context& context, int depth, const ResNetOptions& options);
};

inline ResNet resnet20(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 20, options); }
inline ResNet resnet32(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 32, options); }
inline ResNet resnet44(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 44, options); }
inline ResNet resnet56(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 56, options); }
inline ResNet resnet110(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 110, options); }
inline ResNet resnet18(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 18, options); }
inline ResNet resnet34(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 34, options); }
inline ResNet resnet50(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 50, options); }
inline ResNet resnet101(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 101, options); }
inline ResNet resnet152(Context& context, const ResNetOptions& options = {}) { return ResNet(context, 152, options); }
/// 32 groups of 4 channels in the first stage, whatever the options say.
inline ResNet resnext50_32x4d(Context& context, ResNetOptions options = {}) {
  options.groups = 32;
  options.width_per_group = 4;
  return ResNet(context, 50, options);
}

}  // namespace braid::models
