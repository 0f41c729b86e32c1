#include "models/zoo/blocks/inception.h"

#include <algorithm>

namespace braid::models {

namespace {

using Pool = Branch::Pool;

/// Figure 5 of the paper.
std::vector<Branch> module_a(std::int64_t pool_features) {
  return {{.chain = {{"branch1x1", 64}}},
          {.chain = {{"branch5x5_1", 48}, {"branch5x5_2", 64, 5}}},
          {.chain = {{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, 3}, {"branch3x3dbl_3", 96, 3}}},
          {.pool = Pool::average, .chain = {{"branch_pool", pool_features}}}};
}

/// Figure 10: halves height and width.
std::vector<Branch> module_b() {
  return {{.chain = {{"branch3x3", 384, 3, 2}}},
          {.chain = {{"branch3x3dbl_1", 64}, {"branch3x3dbl_2", 96, 3}, {"branch3x3dbl_3", 96, 3, 2}}},
          {.pool = Pool::maximum_stride_2, .chain = {}}};
}

/// Figure 6: 7x7 convolutions factorised into rows and columns.
std::vector<Branch> module_c(std::int64_t inner) {
  const Extent2d row(1, 7), column(7, 1);
  return {{.chain = {{"branch1x1", 192}}},
          {.chain = {{"branch7x7_1", inner}, {"branch7x7_2", inner, row}, {"branch7x7_3", 192, column}}},
          {.chain = {{"branch7x7dbl_1", inner},
                     {"branch7x7dbl_2", inner, column},
                     {"branch7x7dbl_3", inner, row},
                     {"branch7x7dbl_4", inner, column},
                     {"branch7x7dbl_5", 192, row}}},
          {.pool = Pool::average, .chain = {{"branch_pool", 192}}}};
}

/// Halves height and width.
std::vector<Branch> module_d() {
  return {{.chain = {{"branch3x3_1", 192}, {"branch3x3_2", 320, 3, 2}}},
          {.chain = {{"branch7x7x3_1", 192},
                     {"branch7x7x3_2", 192, {1, 7}},
                     {"branch7x7x3_3", 192, {7, 1}},
                     {"branch7x7x3_4", 192, 3, 2}}},
          {.pool = Pool::maximum_stride_2, .chain = {}}};
}

/// Figure 7: branches that split into a row and a column.
std::vector<Branch> module_e() {
  const Extent2d row(1, 3), column(3, 1);
  return {{.chain = {{"branch1x1", 320}}},
          {.chain = {{"branch3x3_1", 384}}, .split = {{"branch3x3_2a", 384, row}, {"branch3x3_2b", 384, column}}},
          {.chain = {{"branch3x3dbl_1", 448}, {"branch3x3dbl_2", 384, 3}},
           .split = {{"branch3x3dbl_3a", 384, row}, {"branch3x3dbl_3b", 384, column}}},
          {.pool = Pool::average, .chain = {{"branch_pool", 192}}}};
}

void build_inception_auxiliary(Chain& classifier, std::int64_t in, const InceptionV3Options& options) {
  constexpr std::int64_t kWindow = 5;
  const std::int64_t channels = scaled(128, options.width), features = scaled(768, options.width);
  classifier.then([](const Tensor& x) {
    const bool large = std::min(x.shape()[1], x.shape()[2]) >= 17;
    return large ? avg_pool2d(x, {.window = kWindow, .stride = 3}) : adaptive_avg_pool2d(x, kWindow);
  });
  classifier.then<ConvNormLayer>("conv0", in, channels, 1, Conv2dOptions{}, kInceptionNorm);
  classifier.then<ConvNormLayer>("conv1", channels, features, kWindow, Conv2dOptions{}, kInceptionNorm);
  classifier.then(global_avg_pool);
  classifier.then<LinearLayer>("fc", features, options.classes, Init::normal);
}

}  // namespace

InceptionV3::InceptionV3(Context& context, const InceptionV3Options& options) : AuxiliaryChain(context) {
  const bool large = options.stem == Stem::image;
  std::int64_t in = options.channels;
  // Padding is what the large form has; the small one keeps the image's size.
  const auto conv = [&](const char* name, std::int64_t channels, std::int64_t kernel, Conv2dOptions form) {
    if (!large) form = {.padding = kernel / 2};
    const std::int64_t out = scaled(channels, options.width);
    then<ConvNormLayer>(name, in, out, kernel, form, kInceptionNorm);
    in = out;
  };
  const auto pool = [&](const char* name) {
    if (large) then<MaxPoolLayer>(name, PoolOptions{.window = 3, .stride = 2});
  };
  const auto mixed = [&](const char* name, const std::vector<Branch>& branches) {
    in = then<Mixed>(name, in, branches, options.width).channels();
  };
  then(checked_images("inception_v3", options.channels, large ? 75 : 7));
  conv("Conv2d_1a_3x3", 32, 3, {.stride = 2});
  conv("Conv2d_2a_3x3", 32, 3, {});
  conv("Conv2d_2b_3x3", 64, 3, {.padding = 1});
  pool("maxpool1");
  conv("Conv2d_3b_1x1", 80, 1, {});
  conv("Conv2d_4a_3x3", 192, 3, {});
  pool("maxpool2");
  mixed("Mixed_5b", module_a(32));
  mixed("Mixed_5c", module_a(64));
  mixed("Mixed_5d", module_a(64));
  mixed("Mixed_6a", module_b());
  mixed("Mixed_6b", module_c(128));
  mixed("Mixed_6c", module_c(160));
  mixed("Mixed_6d", module_c(160));
  mixed("Mixed_6e", module_c(192));
  if (options.auxiliary) build_inception_auxiliary(add_auxiliary("AuxLogits", 0.4), in, options);
  mixed("Mixed_7a", module_d());
  mixed("Mixed_7b", module_e());
  mixed("Mixed_7c", module_e());
  then(global_avg_pool);
  then<DropoutLayer>("dropout", 0.5);
  then<LinearLayer>("fc", in, options.classes, Init::normal);
}

}  // namespace braid::models
