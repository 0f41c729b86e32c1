#include "models/zoo/chains/lenet.h"

namespace braid::models {

LeNet5::LeNet5(Context& context, const LeNetOptions& options) : Chain(context) {
  BRAID_CHECK(options.image_size >= 12, Error, "[lenet5] expected images of at least 12x12 pixels, got ",
              options.image_size);
  const std::int64_t channels1 = scaled(6, options.width), channels2 = scaled(16, options.width);
  const std::int64_t hidden1 = scaled(120, options.width), hidden2 = scaled(84, options.width);
  const std::int64_t side = (options.image_size / 2 - 4) / 2;
  const auto pool = [](const Tensor& x) { return max_pool2d(x, {}); };
  then<ConvLayer>("conv1", options.channels, channels1, 5, Conv2dOptions{.padding = 2, .activation = Activation::relu},
                  Bias::yes);
  then(pool);
  then<ConvLayer>("conv2", channels1, channels2, 5, Conv2dOptions{.activation = Activation::relu}, Bias::yes);
  then(pool);
  then(flatten);
  then<LinearLayer>("fc1", channels2 * side * side, hidden1);
  then(relu);
  then<LinearLayer>("fc2", hidden1, hidden2);
  then(relu);
  then<LinearLayer>("fc3", hidden2, options.classes);
}

}  // namespace braid::models
