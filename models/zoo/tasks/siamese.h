#pragma once
// A siamese network (Koch et al., 2015): one encoder reads two images, and the distance of their features tells whether
// both show the same thing. The encoder's weights are shared, so its gradients are the sums over both.

#include "models/layers/layers.h"

namespace braid::models {

struct SiameseOptions {
  std::int64_t channels = 1;   ///< channels of an image
  std::int64_t width = 16;     ///< channels of the first layer; each of the three layers has twice as many
  std::int64_t features = 64;  ///< features of an image
  std::int64_t classes = 1;    ///< 1: a logit of both showing the same; 2: a logit for "different", one for "same"
};

/// {images a, images b}, both [N,H,W,channels] → {logits [N,classes]}: how likely a pair shows the same
class Siamese final : public Module {
 public:
  using Options = SiameseOptions;
  explicit Siamese(Context& context, const SiameseOptions& options = {});
  std::vector<Tensor> forward_all(std::span<const Tensor> images) override;
  /// The same for pictures [N,H,2W,channels] of two images side by side, as data/pairs.h makes them.
  Tensor forward(const Tensor& pictures) override;
  /// images [N,H,W,channels] → their features [N,features]
  Tensor encode(const Tensor& images);

 private:
  SiameseOptions options_;
  Sequential& encoder_;
  LinearLayer* features_;
  LinearLayer& compare_;
};

}  // namespace braid::models
