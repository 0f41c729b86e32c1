#pragma once
// LeNet-5 (LeCun et al., 1998) in today's usual form: ReLU and max pooling.

#include "models/layers/layers.h"

namespace braid::models {

struct LeNetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 1;     ///< channels of the input image
  std::int64_t image_size = 28;  ///< height and width of the input image, at least 12
  double width = 1;              ///< multiplies the channels of all layers
};

/// images [N,S,S,channels] → logits [N,classes]
class LeNet5 final : public Chain {
 public:
  using Options = LeNetOptions;
  explicit LeNet5(Context& context, const LeNetOptions& options = {});
};

inline LeNet5 lenet5(Context& context, const LeNetOptions& options = {}) { return LeNet5(context, options); }

}  // namespace braid::models
