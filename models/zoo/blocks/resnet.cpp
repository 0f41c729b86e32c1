#include "models/zoo/blocks/resnet.h"

#include <algorithm>
#include <iterator>

namespace braid::models {

namespace {

/// The options of a shortcut where a block changes the shape: a strided 1x1 projection.
constexpr NormOptions kShortcut{.activation = Activation::none, .conv_name = "0", .norm_name = "1"};

/// The extents of a block.
struct BlockShape {
  std::int64_t in;      ///< input channels
  std::int64_t inner;   ///< channels of the 3x3 convolution
  std::int64_t out;     ///< output channels
  std::int64_t stride;  ///< stride of the 3x3 convolution, of the first one in a basic block
  std::int64_t groups;  ///< groups of the 3x3 convolution in a bottleneck
  bool zero_init;       ///< whether the last normalisation starts at scale 0
};

/// Two 3x3 convolutions, or as a bottleneck 1x1, 3x3 and 1x1 ones, in parallel with a shortcut.
class ResidualBlock final : public Chain {
 public:
  ResidualBlock(Context& context, const BlockShape& s, bool bottleneck) : Chain(context) {
    int number = 0;
    const auto add_conv = [&](std::int64_t in, std::int64_t out, std::int64_t kernel, const Conv2dOptions& options) {
      if (number > 0) then(*norm_);
      then<ConvLayer>(message("conv", ++number), in, out, kernel, options);
      norm_ = &add<BatchNormLayer>(message("bn", number), out, Activation::relu);
    };
    if (bottleneck) {
      add_conv(s.in, s.inner, 1, {});
      add_conv(s.inner, s.inner, 3, {.stride = s.stride, .padding = 1, .groups = s.groups});
      add_conv(s.inner, s.out, 1, {});
    } else {
      add_conv(s.in, s.inner, 3, {.stride = s.stride, .padding = 1});
      add_conv(s.inner, s.out, 3, {.padding = 1});
    }
    if (s.zero_init) norm_->zero_scale();
    if (s.stride != 1 || s.in != s.out)
      shortcut_ = &add<ConvNormLayer>("downsample", s.in, s.out, 1, Conv2dOptions{.stride = s.stride}, kShortcut);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = Chain::forward(x);
    return (*norm_)(y, shortcut_ != nullptr ? (*shortcut_)(x) : x);
  }

 private:
  BatchNormLayer* norm_ = nullptr;  // the last, which also adds the shortcut
  ConvNormLayer* shortcut_ = nullptr;
};

/// The form of a depth: blocks per stage, of which the CIFAR form has three, and the kind of block.
struct Form {
  int depth;
  int blocks[4];
  bool bottleneck;
  bool cifar() const { return blocks[3] == 0; }
  std::int64_t width() const { return cifar() ? 16 : 64; }  ///< of the first stage; each next one doubles
};
constexpr Form kForms[] = {{18, {2, 2, 2, 2}, false},    {34, {3, 4, 6, 3}, false},  {50, {3, 4, 6, 3}, true},
                           {101, {3, 4, 23, 3}, true},   {152, {3, 8, 36, 3}, true}, {20, {3, 3, 3, 0}, false},
                           {32, {5, 5, 5, 0}, false},    {44, {7, 7, 7, 0}, false},  {56, {9, 9, 9, 0}, false},
                           {110, {18, 18, 18, 0}, false}};

const Form& form_of(int depth) {
  const auto* form = std::ranges::find(kForms, depth, &Form::depth);
  BRAID_CHECK(form != std::end(kForms), Error,
              "[resnet] expected a depth of 20, 32, 44, 56, 110 (CIFAR form) or 18, 34, 50, 101, 152 (ImageNet form), "
              "got ",
              depth);
  return *form;
}

}  // namespace

ResNet::ResNet(Context& context, int depth, const ResNetOptions& options) : Chain(context) {
  const Form& form = form_of(depth);
  BRAID_CHECK(form.bottleneck || options.groups == 1, Error, "[resnet] expected one group at depth ", depth,
              ", which has no bottlenecks, got ", options.groups);
  const bool large = !form.cifar() && options.stem == Stem::image;
  std::int64_t in = scaled(form.width(), options.width);
  then<ConvLayer>("conv1", options.channels, in, large ? 7 : 3,
                  Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 3 : 1});
  then<BatchNormLayer>("bn1", in, Activation::relu);
  if (large) then([](const Tensor& x) { return max_pool2d(x, {.window = 3, .stride = 2, .padding = 1}); });

  for (std::size_t stage = 0; stage < std::size(form.blocks); ++stage) {
    constexpr std::int64_t kExpansion = 4;  // of a bottleneck
    const std::int64_t factor = std::int64_t{1} << stage, width = scaled(form.width() * factor, options.width);
    const std::int64_t in_groups = options.groups * scaled(options.width_per_group * factor, options.width);
    const std::int64_t out = form.bottleneck ? width * kExpansion : width;
    for (int i = 0; i < form.blocks[stage]; ++i, in = out) {
      const BlockShape shape{.in = in,
                             .inner = form.bottleneck ? in_groups : width,
                             .out = out,
                             .stride = stage > 0 && i == 0 ? 2 : 1,
                             .groups = options.groups,
                             .zero_init = options.zero_init_residual};
      then<ResidualBlock>(message("layer", stage + 1, '.', i), shape, form.bottleneck);
    }
  }
  then(global_avg_pool);
  then<LinearLayer>("fc", in, options.classes);
}

}  // namespace braid::models
