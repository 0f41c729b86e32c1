#include "models/zoo/tasks/unet.h"

namespace braid::models {

namespace {

const UNetOptions& checked(const UNetOptions& options) {
  BRAID_CHECK(options.levels >= 1 && options.width >= 1, Error,
              "[unet] expected at least 1 level and a width of 1, got ", options.levels, " and ", options.width);
  return options;
}

/// Two convolutions with batch norm and ReLU.
void append_pair(Sequential& layers, std::int64_t in, std::int64_t out) {
  layers.append<ConvNormLayer>(in, out, 3, {.padding = 1});
  layers.append<ConvNormLayer>(out, out, 3, {.padding = 1});
}

}  // namespace

UNet::UNet(Context& context, const UNetOptions& options)
    : Module(context),
      options_(checked(options)),
      bottom_(add<Sequential>("bottom")),
      head_(add<ConvLayer>("head", options.width, options.classes, 1, Conv2dOptions{}, Bias::yes)) {
  std::int64_t in = options.channels, out = options.width;
  for (int i = 0; i < options.levels; ++i, in = out, out *= 2) {
    const Level level{&add<Sequential>(message("down", i)),
                      &add<ConvTransposeLayer>(message("up", i), 2 * out, out, 2, {.stride = 2}),
                      &add<Sequential>(message("joined", i))};
    append_pair(*level.down, in, out);
    append_pair(*level.joined, 2 * out, out);
    levels_.push_back(level);
  }
  append_pair(bottom_, in, out);
}

Tensor UNet::forward(const Tensor& x) {
  check_images("unet", x, options_.channels, 1);
  const std::int64_t multiple = std::int64_t{1} << options_.levels;
  BRAID_CHECK(x.shape()[1] % multiple == 0 && x.shape()[2] % multiple == 0, ShapeError,
              "[unet] expected images whose height and width are multiples of ", multiple, ", got ", x.shape());
  std::vector<Tensor> skipped;
  Tensor y = x;
  for (const Level& level : levels_) {
    skipped.push_back((*level.down)(y));
    y = max_pool2d(skipped.back(), {.window = 2, .stride = 2});
  }
  y = bottom_(y);
  for (std::size_t i = levels_.size(); i-- > 0;) {
    y = (*levels_[i].joined)(concat({skipped[i], (*levels_[i].up)(y)}));
  }
  return head_(y);
}

}  // namespace braid::models
