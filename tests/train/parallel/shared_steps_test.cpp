// What shares a step: features in pairs, several steps recorded as one, and models side by side. Each gives the bits
// that it gives alone, one step at a time.

#include <doctest/doctest.h>

#include <array>

#include "autograd/functions.h"
#include "core/base/hash.h"
#include "core/comm/local/local_ranks.h"
#include "models/layers/layers.h"
#include "runtime/session.h"
#include "tests/core/on_all.h"
#include "tests/data/files.h"
#include "tests/effort.h"
#include "tests/noise.h"
#include "tests/train/quiet_training.h"
#include "tests/train/single_job.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"
#include "train/weight_average.h"

using namespace braid;
using namespace braid::testing;

namespace {

enum Feature {
  accumulation,
  averaging,
  clipping,
  adam,
  half,  ///< f16, and so a loss scale
  bfloat,
  freezing,
  checkpointing,
  shards,
  ranks,
  sharded_optimizer,
  sharded_parameters,
  kFeatures
};
constexpr std::array<const char*, kFeatures> kNames = {
    "accumulation", "averaging", "clipping",          "adam",
    "half",         "bfloat",    "freezing",          "checkpointing",
    "shards",       "ranks",     "sharded_optimizer", "sharded_parameters"};
using Features = std::array<bool, kFeatures>;

constexpr std::int64_t kImageSide = 6, kChannels = 8, kClasses = 5, kImages = 8;
constexpr int kShards = 4, kRanks = 2, kTrainedSteps = 6;

class Network final : public Module {
 public:
  Network(Context& context, const Features& features)
      : Module(context),
        conv_(add<ConvLayer>("conv", 3, kChannels, 3, Conv2dOptions{.padding = 1})),
        norm_(add<BatchNormLayer>("norm", kChannels, Activation::relu)),
        inner_(add<ConvLayer>("inner", kChannels, kChannels, 3, Conv2dOptions{.padding = 1})),
        dropout_(add<DropoutLayer>("dropout", 0.25)),
        head_(add<LinearLayer>("head", kChannels, kClasses)),
        checkpoints_(features[checkpointing]) {
    if (!features[freezing]) return;
    for (Module* module : {static_cast<Module*>(&conv_), static_cast<Module*>(&norm_)}) {
      for (Parameter* parameter : module->parameters()) parameter->trainable = false;
    }
    keep_frozen_statistics(*this);
  }

  Tensor forward(const Tensor& x) override {
    const auto block = [&](const Tensor& y) { return dropout_(relu(inner_(y))); };
    const Tensor y = norm_(conv_(x));
    return head_(global_avg_pool(checkpoints_ ? checkpoint(block, y) : block(y)));
  }

 private:
  ConvLayer& conv_;
  BatchNormLayer& norm_;
  ConvLayer& inner_;
  DropoutLayer& dropout_;
  LinearLayer& head_;
  bool checkpoints_;
};

/// A network and its optimizer, trained on random samples that its seed determines.
class Training {
 public:
  Training(Session& session, const Features& features, std::uint64_t seed)
      : session_(session), features_(features), random_{.seed = seed} {
    const Context::RandomScope scope(session, random_);
    network_ = std::make_unique<Network>(session, features);
    std::vector<Parameter*> trained = network_->parameters();
    std::erase_if(trained, [](const Parameter* parameter) { return !parameter->trainable; });
    if (features[adam]) {
      optimizer_ = std::make_unique<Adam>(trained, Adam::Options{});
    } else {
      optimizer_ = std::make_unique<SGD>(trained, SGD::Options{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3});
    }
    if (features[clipping]) optimizer_->clip_norm(0.5);
    if (features[half]) scale_ = std::make_unique<LossScale>(session);
    if (features[averaging]) average_ = std::make_unique<WeightAverage>(session, network_->tensors(), 0.5);
  }

  void record() {
    const Context::RandomScope scope(session_, random_);
    const auto [images, labels] = samples();
    const DType dtype = features_[half] ? DType::f16 : features_[bfloat] ? DType::bf16 : DType::f32;
    const Tensor logits = cast((*network_)(cast(place(images, Layout::split), dtype)), DType::f32);
    const Tensor loss = cross_entropy(logits, place(labels, Layout::split));
    backward({{loss}}, scale_.get());
    losses_.push_back(loss.fetch());
    const bool last = random_.step % 2 == 1;
    if (features_[accumulation]) optimizer_->accumulate(0.5);
    if (!features_[accumulation] || last) {
      optimizer_->step(scale_.get());
      if (average_ != nullptr) average_->record(optimizer_->updates() - 1);
    }
    ++random_.step;
  }

  /// The hash of all losses, weights and states.
  Hash hash() {
    Hash hash;
    for (Fetched& loss : losses_) hash.add(loss.item());
    std::vector<Parameter*> tensors = network_->tensors(), states = optimizer_->states(features_[accumulation]);
    tensors.insert(tensors.end(), states.begin(), states.end());
    if (scale_ != nullptr) tensors.insert(tensors.end(), scale_->states().begin(), scale_->states().end());
    if (average_ != nullptr) tensors.insert(tensors.end(), average_->averages().begin(), average_->averages().end());
    for (const Parameter* tensor : tensors) {
      const Array array = session_.read(*tensor);
      hash.add(std::string_view(reinterpret_cast<const char*>(array.data()), array.bytes()));
    }
    return hash;
  }

 private:
  /// The samples of a step that are this rank's.
  std::pair<Array, Array> samples() const {
    const ParallelOptions& parallel = session_.parallel();
    const std::int64_t count = kImages / parallel.ranks(), first = random_.step * kImages + count * rank(parallel);
    return random_samples(random_.seed, first, count, kImageSide, kClasses);
  }

  Session& session_;
  Features features_;
  RandomState random_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LossScale> scale_;
  std::unique_ptr<WeightAverage> average_;
  std::vector<Fetched> losses_;
};

/// The hash of each training, which share their steps, after `turn` steps at a time.
std::vector<Hash> train_together(const Features& features, const std::vector<std::uint64_t>& seeds, int turn,
                                 std::shared_ptr<Communicator> communicator = nullptr) {
  const Sharded shard = features[sharded_parameters]  ? Sharded::parameters
                        : features[sharded_optimizer] ? Sharded::optimizer
                                                      : Sharded::nothing;
  Session session({.device = "cpu",
                   .streams = 2,
                   .threads = 1,
                   .parallel = {.communicator = std::move(communicator),
                                .virtual_ranks = features[shards] || features[ranks] ? kShards : 0,
                                .bucket_bytes = 1000,
                                .zero = shard}});
  std::vector<std::unique_ptr<Training>> trainings;
  for (const std::uint64_t seed : seeds) trainings.push_back(std::make_unique<Training>(session, features, seed));
  for (int i = 0; i < kTrainedSteps; i += turn) {
    Step step = session.step();
    for (const auto& training : trainings) {
      for (int k = 0; k < turn; ++k) training->record();
    }
    step.run();
  }
  std::vector<Hash> hashes;
  for (const auto& training : trainings) hashes.push_back(training->hash());
  return hashes;
}

std::vector<Hash> train(const Features& features, const std::vector<std::uint64_t>& seeds, int turn) {
  if (!features[ranks]) return train_together(features, seeds, turn);
  const auto group = std::make_shared<LocalRanks>(kRanks);
  std::vector<std::vector<Hash>> results(kRanks);
  const auto errors = on_ranks(*group, [&](Communicator& own) {
    results[static_cast<std::size_t>(own.rank())] = train_together(features, seeds, turn, {group, &own});
  });
  REQUIRE(errors == std::vector<std::string>(kRanks));
  CHECK(results[0] == results[1]);
  return results[0];
}

}  // namespace

TEST_CASE("any two features give the same bits whether steps and models are recorded together or one by one") {
  for (int a = 0; a < kFeatures; ++a) {
    for (int b = a; b < kFeatures; ++b) {
      if (!kEveryCase && a != accumulation && a != b) continue;
      Features features{};
      features[static_cast<std::size_t>(a)] = features[static_cast<std::size_t>(b)] = true;
      if (features[half] && features[bfloat]) continue;
      if (features[sharded_optimizer] && features[sharded_parameters]) continue;
      if (features[sharded_optimizer] || features[sharded_parameters]) features[ranks] = true;
      CAPTURE(kNames[static_cast<std::size_t>(a)]);
      CAPTURE(kNames[static_cast<std::size_t>(b)]);
      const std::vector<Hash> together = train(features, {1, 2}, 3);
      CHECK(together[0] == train(features, {1}, 1)[0]);
      CHECK(together[1] == train(features, {2}, 1)[0]);
    }
  }
}

TEST_CASE("steps as one have to be faster than single steps, unless the number of streams is fixed") {
  const TemporaryFolder folder;
  // Runs long enough for a comparison.
  const auto train = [&](int turn, const char* streams, int accumulate = 1) {
    const TrainConfig config = parse_train_config(
        "name: turns\ndevice: cpu\ndata: {name: synthetic, size: 640, val_size: 8, image_size: 16, channels: 1, "
        "classes: 4}\nmodel: {name: lenet5}\ntrain: {epochs: 1, batch_size: 4}\noptimizer: {lr: 0.05}\n",
        "turns.yaml",
        {"output.root=" + folder.path(), message("parallel.steps_per_execution=", turn), message("streams=", streams),
         message("train.accumulate=", accumulate)});
    const auto [run, text] = finish(as_run(config));
    return std::pair(bytes_of(run.jobs.front().folder / "model.safetensors"), text);
  };
  const auto [weights, text] = train(3, "auto");
  const auto compares = [](const std::string& output) {
    return contains(output, "3 steps as one kept, ") || contains(output, "single steps kept, ");
  };
  CHECK(compares(text));
  CHECK(weights == train(1, "auto").first);
  // Steps of one kind alternate where an update takes two.
  const auto [updates, accumulated] = train(3, "auto", 2);
  CHECK(compares(accumulated));
  CHECK(updates == train(1, "auto", 2).first);
  const auto [fixed_weights, fixed_text] = train(3, "1");
  CHECK_FALSE(compares(fixed_text));
  CHECK(fixed_weights == weights);
}
