#pragma once
// A multilayer perceptron on the pixels of an image: fully connected layers with ReLU between them.

#include "models/layers/layers.h"

namespace braid::models {

struct MlpOptions {
  std::int64_t classes = 10;
  std::int64_t inputs = 28 * 28;                  ///< height·width·channels of the input image
  std::vector<std::int64_t> hidden = {256, 128};  ///< sizes of the hidden layers, possibly none
};

/// images [N,...] of `inputs` values each → logits [N,classes]
class Mlp final : public Chain {
 public:
  using Options = MlpOptions;
  explicit Mlp(Context& context, const MlpOptions& options = {});
};

inline Mlp mlp(Context& context, const MlpOptions& options = {}) { return Mlp(context, options); }

}  // namespace braid::models
