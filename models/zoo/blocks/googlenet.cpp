#include "models/zoo/blocks/googlenet.h"

namespace braid::models {

namespace {

/// A row of table 1 of the paper.
struct Row {
  const char* name;
  std::int64_t one, reduce3, three, reduce5, five, project;  ///< channels of the convolutions
  const char* auxiliary;                                     ///< name of the classifier that follows
  std::int64_t pool;                                         ///< window of the max pool that follows
};

constexpr Row kRows[] = {
    {"inception3a", 64, 96, 128, 16, 32, 32, nullptr, 0},     {"inception3b", 128, 128, 192, 32, 96, 64, nullptr, 3},
    {"inception4a", 192, 96, 208, 16, 48, 64, "aux1", 0},     {"inception4b", 160, 112, 224, 24, 64, 64, nullptr, 0},
    {"inception4c", 128, 128, 256, 24, 64, 64, nullptr, 0},   {"inception4d", 112, 144, 288, 32, 64, 64, "aux2", 0},
    {"inception4e", 256, 160, 320, 32, 128, 128, nullptr, 2}, {"inception5a", 256, 160, 320, 32, 128, 128, nullptr, 0},
    {"inception5b", 384, 192, 384, 48, 128, 128, nullptr, 0},
};

std::vector<Branch> branches_of(const Row& row) {
  return {{.chain = {{"branch1", row.one}}},
          {.chain = {{"branch2.0", row.reduce3}, {"branch2.1", row.three, 3}}},
          {.chain = {{"branch3.0", row.reduce5}, {"branch3.1", row.five, 3}}},
          {.pool = Branch::Pool::maximum, .chain = {{"branch4.1", row.project}}}};
}

void build_auxiliary(Chain& classifier, std::int64_t in, const GoogLeNetOptions& options) {
  constexpr std::int64_t kPooled = 4;
  const std::int64_t channels = scaled(128, options.width), hidden = scaled(1024, options.width);
  classifier.then([](const Tensor& x) { return adaptive_avg_pool2d(x, kPooled); });
  classifier.then<ConvNormLayer>("conv", in, channels, 1, Conv2dOptions{}, kInceptionNorm);
  classifier.then(flatten);
  classifier.then<LinearLayer>("fc1", channels * kPooled * kPooled, hidden, Init::normal);
  classifier.then(relu);
  classifier.then<DropoutLayer>("dropout", 0.7);
  classifier.then<LinearLayer>("fc2", hidden, options.classes, Init::normal);
}

}  // namespace

GoogLeNet::GoogLeNet(Context& context, const GoogLeNetOptions& options) : AuxiliaryChain(context) {
  const bool large = options.stem == Stem::image;
  const std::int64_t narrow = scaled(64, options.width);
  std::int64_t in = scaled(192, options.width);
  const auto max_pool = [&](std::int64_t window) {
    then([window](const Tensor& x) { return max_pool2d(x, {.window = window, .stride = 2, .ceil_mode = true}); });
  };
  then(checked_images("googlenet", options.channels, large ? 31 : 8));
  then<ConvNormLayer>("conv1", options.channels, narrow, large ? 7 : 3,
                      Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 3 : 1}, kInceptionNorm);
  if (large) max_pool(3);
  then<ConvNormLayer>("conv2", narrow, narrow, 1, Conv2dOptions{}, kInceptionNorm);
  then<ConvNormLayer>("conv3", narrow, in, 3, Conv2dOptions{.padding = 1}, kInceptionNorm);
  max_pool(3);
  for (const Row& row : kRows) {
    in = then<Mixed>(row.name, in, branches_of(row), options.width).channels();
    if (options.auxiliary && row.auxiliary != nullptr) build_auxiliary(add_auxiliary(row.auxiliary, 0.3), in, options);
    if (row.pool > 0) max_pool(row.pool);
  }
  then(global_avg_pool);
  then<DropoutLayer>("dropout", 0.2);
  then<LinearLayer>("fc", in, options.classes, Init::normal);
}

}  // namespace braid::models
