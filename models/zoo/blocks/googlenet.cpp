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

Tensor max_pool(const Tensor& x, std::int64_t window) {
  return max_pool2d(x, {.window = window, .stride = 2, .ceil_mode = true});
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

GoogLeNet::GoogLeNet(Context& context, const GoogLeNetOptions& options) : Module(context), options_(options) {
  const bool large = options.stem == Stem::image;
  const std::int64_t narrow = scaled(64, options.width);
  std::int64_t in = scaled(192, options.width);
  conv1_ = &add<ConvNormLayer>("conv1", options.channels, narrow, large ? 7 : 3,
                               Conv2dOptions{.stride = large ? 2 : 1, .padding = large ? 3 : 1}, kInceptionNorm);
  conv2_ = &add<ConvNormLayer>("conv2", narrow, narrow, 1, Conv2dOptions{}, kInceptionNorm);
  conv3_ = &add<ConvNormLayer>("conv3", narrow, in, 3, Conv2dOptions{.padding = 1}, kInceptionNorm);
  for (const Row& row : kRows) {
    Stage& stage = stages_.emplace_back(Stage{.module = nullptr, .auxiliary = nullptr, .pool = row.pool});
    stage.module = &add<Mixed>(row.name, in, branches_of(row), options.width);
    in = stage.module->channels();
    if (!options.auxiliary || row.auxiliary == nullptr) continue;
    stage.auxiliary = &add<Chain>(row.auxiliary);
    build_auxiliary(*stage.auxiliary, in, options);
  }
  dropout_ = &add<DropoutLayer>("dropout", 0.2);
  classifier_ = &add<LinearLayer>("fc", in, options.classes, Init::normal);
}

std::vector<Head> GoogLeNet::heads(const Tensor& x) {
  const Tape::Layer layer(x.tape(), name());
  std::vector<Head> heads;
  const Tensor logits = classify(x, training() ? &heads : nullptr);
  heads.insert(heads.begin(), Head{logits, 1});
  return heads;
}

Tensor GoogLeNet::classify(const Tensor& x, std::vector<Head>* heads) {
  const bool large = options_.stem == Stem::image;
  check_images("googlenet", x, options_.channels, large ? 31 : 8);
  Tensor y = (*conv1_)(x);
  if (large) y = max_pool(y, 3);
  y = max_pool((*conv3_)((*conv2_)(y)), 3);
  for (const Stage& stage : stages_) {
    y = (*stage.module)(y);
    if (heads != nullptr && stage.auxiliary != nullptr) heads->push_back({(*stage.auxiliary)(y), 0.3});
    if (stage.pool > 0) y = max_pool(y, stage.pool);
  }
  return (*classifier_)((*dropout_)(global_avg_pool(y)));
}

}  // namespace braid::models
