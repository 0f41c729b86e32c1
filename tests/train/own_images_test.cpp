// What a config says about images reaches the training: targets of mixed images, computed normalisation.

#include <doctest/doctest.h>

#include <cmath>

#include "data/loader/loader.h"
#include "tests/train/single_job.h"
#include "train/run/factories.h"
#include "train/run/job/learner.h"

using namespace braid;

namespace {

TrainConfig tiny(const std::vector<std::string>& overrides = {}) {
  return parse_train_config(
      "name: tiny\ndevice: cpu\nmodel: {name: lenet5}\n"
      "data: {name: synthetic, size: 64, val_size: 8, image_size: 16, channels: 2, classes: 4}\n"
      "train: {epochs: 1, batch_size: 16}\n",
      "tiny.yaml", overrides);
}

Batch first_batch(const TrainConfig& config, Split split) {
  DatasetPool datasets;
  Loader loader(datasets.get(config, split), loader_options(config, split));
  loader.start_epoch(0);
  Batch batch;
  CHECK(loader.next(batch));
  return batch;
}

struct Outcome {
  double loss, top1;
};

/// The outcome of the first step of a new model.
Outcome learn(const TrainConfig& config, const Batch& batch) {
  DatasetPool datasets;
  Session session(config.session);
  Learner learner(config, session, *datasets.get(config, Split::train));
  Step step = session.step();
  const Learner::Recorded recorded = learner.record(batch);
  const Fetched loss = recorded.loss.fetch(), top1 = recorded.top1.fetch();
  step.run();
  return {loss.item(), top1.item()};
}

}  // namespace

TEST_CASE("the loss compares mixed images with their targets, and the accuracy with their labels") {
  const TrainConfig config = tiny({"train.label_smoothing=0.1"});
  const Batch original = first_batch(config, Split::train);
  Batch shifted = original, mixed = original;
  shifted.labels = Array(DType::i32, {16});
  mixed.targets = Array(DType::f32, {16, 4});
  for (std::size_t i = 0; i < 16; ++i) {
    const int label = (original.labels.as<std::int32_t>()[i] + 1) % 4;
    shifted.labels.as<std::int32_t>()[i] = label;
    mixed.targets.as<float>()[i * 4 + static_cast<std::size_t>(label)] = 1;
  }
  const Outcome of_mixed = learn(config, mixed);
  CHECK(of_mixed.loss == doctest::Approx(learn(config, shifted).loss).epsilon(1e-6));
  CHECK(of_mixed.loss != learn(config, original).loss);
  CHECK(of_mixed.top1 == learn(config, original).top1);
}

TEST_CASE("mixing is for training only, and every batch then has targets") {
  const TrainConfig config = tiny({"data.augment.mixup=0.2", "data.augment.mixup_prob=0"});
  const Batch batch = first_batch(config, Split::train);
  CHECK(batch.targets.shape() == Shape{16, 4});
  CHECK(first_batch(config, Split::val).targets.size() == 0);
  CHECK(first_batch(tiny(), Split::train).targets.size() == 0);
  CHECK(learn(config, batch).loss ==
        doctest::Approx(learn(config, first_batch(tiny(), Split::train)).loss).epsilon(1e-6));
}

TEST_CASE("computed normalisation gives training images the mean 0 and the deviation 1") {
  TrainConfig config = tiny({"data.normalize.compute=true", "train.batch_size=64"});
  DatasetPool datasets;
  compute_normalization(config, datasets);
  CHECK_FALSE(config.data.compute_normalization);
  const Batch all = first_batch(config, Split::train);
  const auto pixels = all.images.as<float>();
  for (std::size_t c = 0; c < 2; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t i = c; i < pixels.size(); i += 2) {
      sum += static_cast<double>(pixels[i]);
      squares += static_cast<double>(pixels[i]) * static_cast<double>(pixels[i]);
    }
    const auto count = static_cast<double>(pixels.size() / 2);
    CHECK(std::abs(sum / count) < 1e-4);
    CHECK(squares / count == doctest::Approx(1).epsilon(1e-4));
  }
  const std::vector<double> mean = config.data.mean;
  config.data.mean = {0, 0};
  compute_normalization(config, datasets);
  CHECK(config.data.mean == std::vector<double>{0, 0});  // given numbers stay
  CHECK(mean[0] != mean[1]);
}
