#include "models/zoo/chains/lenet.h"

namespace braid::models {

LeNet5::LeNet5(Context& context, const LeNetOptions& options)
    : Module(context),
      conv1_(add<ConvLayer>("conv1", options.channels, scaled(6, options.width), 5,
                            Conv2dOptions{.padding = 2, .activation = Activation::relu}, Bias::yes)),
      conv2_(add<ConvLayer>("conv2", scaled(6, options.width), scaled(16, options.width), 5,
                            Conv2dOptions{.activation = Activation::relu}, Bias::yes)) {
  BRAID_CHECK(options.image_size >= 12, Error, "[lenet5] expected images of at least 12x12 pixels, got ",
              options.image_size);
  const std::int64_t side = (options.image_size / 2 - 4) / 2;
  const std::int64_t hidden1 = scaled(120, options.width), hidden2 = scaled(84, options.width);
  fc1_ = &add<LinearLayer>("fc1", scaled(16, options.width) * side * side, hidden1);
  fc2_ = &add<LinearLayer>("fc2", hidden1, hidden2);
  fc3_ = &add<LinearLayer>("fc3", hidden2, options.classes);
}

Tensor LeNet5::forward(const Tensor& x) {
  Tensor y = max_pool2d(conv1_(x), {});
  y = flatten(max_pool2d(conv2_(y), {}));
  return (*fc3_)(relu((*fc2_)(relu((*fc1_)(y)))));
}

}  // namespace braid::models
