#include "models/zoo/tasks/siamese.h"

namespace braid::models {

Siamese::Siamese(Context& context, const SiameseOptions& options)
    : Module(context),
      options_(options),
      encoder_(add<Sequential>("encoder")),
      compare_(add<LinearLayer>("compare", options.features, options.classes)) {
  std::int64_t in = options.channels, out = options.width;
  for (int i = 0; i < 3; ++i, in = out, out *= 2) {
    encoder_.append<ConvNormLayer>(in, out, 3, {.padding = 1});
    if (i < 2) encoder_.append<MaxPoolLayer>({.window = 2, .stride = 2});
  }
  features_ = &add<LinearLayer>("features", in, options.features);
}

Tensor Siamese::encode(const Tensor& images) {
  check_images("siamese", images, options_.channels, 4);
  return sigmoid((*features_)(global_avg_pool(encoder_(images))));
}

std::vector<Tensor> Siamese::forward_all(std::span<const Tensor> images) {
  BRAID_CHECK(images.size() == 2, ShapeError, "[siamese] expected two batches of images, got ", images.size());
  // Two statements: compilers evaluate operands in different orders, and plans follow the order of recording.
  const Tensor second = encode(images[1]);
  const Tensor first = encode(images[0]);
  return {compare_(abs(first - second))};
}

Tensor Siamese::forward(const Tensor& pictures) {
  check_images("siamese", pictures, options_.channels, 4);
  return forward_all(chunk(pictures, 2, 2))[0];
}

}  // namespace braid::models
