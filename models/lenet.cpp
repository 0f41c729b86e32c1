#include "models/lenet.h"

namespace braid::models {

LeNet5::LeNet5(Context& context, const LeNetOptions& options)
    : Module(context),
      conv1_(add<ConvLayer>("conv1", options.channels, 6, 5, Conv2dOptions{.padding = 2}, Bias::yes)),
      conv2_(add<ConvLayer>("conv2", 6, 16, 5, Conv2dOptions{}, Bias::yes)) {
  BRAID_CHECK(options.image_size >= 12, Error, "[lenet5] expected images of at least 12x12 pixels, got ",
              options.image_size);
  const std::int64_t side = (options.image_size / 2 - 4) / 2;
  fc1_ = &add<LinearLayer>("fc1", 16 * side * side, 120);
  fc2_ = &add<LinearLayer>("fc2", 120, 84);
  fc3_ = &add<LinearLayer>("fc3", 84, options.classes);
}

Tensor LeNet5::forward(const Tensor& x) {
  Tensor y = max_pool2d(relu(conv1_(x)), {});
  y = flatten(max_pool2d(relu(conv2_(y)), {}));
  return (*fc3_)(relu((*fc2_)(relu((*fc1_)(y)))));
}

}  // namespace braid::models
