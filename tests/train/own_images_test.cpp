// What a config says about images reaches the training: targets of mixed images, computed normalisation.

#include <doctest/doctest.h>

#include <cmath>

#include "core/base/error.h"
#include "data/loader/loader.h"
#include "tests/error_of.h"
#include "tests/train/single_job.h"
#include "train/run/factories.h"
#include "train/run/job/learner.h"

using namespace braid;
using namespace braid::testing;

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

TEST_CASE("train.loss says what is minimized, also with mixed images and weighted classes") {
  const Batch batch = first_batch(tiny(), Split::train);
  const auto loss = [&](std::initializer_list<std::string> keys) {
    return learn(tiny(std::vector<std::string>(keys)), batch).loss;
  };
  const double cross = loss({"train.loss=cross_entropy"}), focal = loss({"train.loss=focal", "train.focal_gamma=1"});
  CHECK(focal < cross);
  CHECK(loss({"train.loss=focal", "train.focal_gamma=4"}) < focal);
  CHECK(loss({"train.loss=focal", "train.focal_gamma=1", "train.class_weights=[2, 2, 2, 2]"}) ==
        doctest::Approx(2 * focal).epsilon(1e-6));
  const double binary = loss({"train.loss=binary_cross_entropy"});
  Batch mixed = batch;
  mixed.targets = Array(DType::f32, {16, 4});
  for (std::size_t i = 0; i < 16; ++i) {
    mixed.targets.as<float>()[4 * i + static_cast<std::size_t>(batch.labels.as<std::int32_t>()[i])] = 1;
  }
  CHECK(learn(tiny({"train.loss=binary_cross_entropy"}), mixed).loss == doctest::Approx(binary).epsilon(1e-6));
  CHECK(binary != doctest::Approx(cross));
  CHECK_THROWS_WITH_AS(tiny({"train.loss=binary_cross_entropy", "train.class_weights=balanced"}),
                       doctest::Contains("are for cross_entropy and focal"), ConfigError);
}

TEST_CASE("weights of classes multiply the losses of their images") {
  for (const std::string smoothing : {"0", "0.1"}) {
    const std::string smooth = "train.label_smoothing=" + smoothing;
    const TrainConfig plain = tiny({smooth}), weighted = tiny({smooth, "train.class_weights=[1, 2, 0.5, 4]"});
    const Batch batch = first_batch(plain, Split::train);
    CHECK(learn(tiny({smooth, "train.class_weights=[1, 1, 1, 1]"}), batch).loss ==
          doctest::Approx(learn(plain, batch).loss).epsilon(1e-6));
    Batch one = batch;  // sixteen images of one class
    const double factors[] = {1, 2, 0.5, 4};
    for (int label = 0; label < 4 && smoothing == "0"; ++label) {
      one.labels = Array::from(std::vector<std::int32_t>(16, label), {16});
      CHECK(learn(weighted, one).loss == doctest::Approx(factors[label] * learn(plain, one).loss).epsilon(1e-6));
      CHECK(learn(weighted, one).top1 == learn(plain, one).top1);
    }
  }
  const Batch batch = first_batch(tiny(), Split::train);
  CHECK(error_of<ConfigError>([&] { learn(tiny({"train.class_weights=[1, 2]"}), batch); }) ==
        "[train] class_weights: expected one per class (4), got 2");
}

/// Images of which a class has another number than others.
class Uneven final : public ImageDataset {
 public:
  std::int64_t size() const override { return 64; }
  Shape image_shape() const override { return {16, 16, 2}; }
  int classes() const override { return 4; }
  std::string name() const override { return "uneven"; }
  int label(std::int64_t index) const override { return index < 48 ? 0 : index < 60 ? 1 : index < 63 ? 2 : 3; }
  Image image(std::int64_t) const override { return {image_shape(), pixels_}; }

 private:
  std::vector<std::uint8_t> pixels_ = std::vector<std::uint8_t>(16 * 16 * 2, 100);
};

TEST_CASE("balanced weights make classes count alike, and a balanced sampler shows them equally often") {
  const Uneven images;
  CHECK(class_weights(tiny(), images).empty());
  const std::vector<double> weights = class_weights(tiny({"train.class_weights=balanced"}), images);
  CHECK(weights == std::vector<double>{16.0 / 48, 16.0 / 12, 16.0 / 3, 16});
  const auto counts = [&](const TrainConfig& config) {
    Loader loader(std::make_shared<Uneven>(), training_options(config, images));
    std::vector<int> shown(4);
    for (const Batch& batch : loader) {
      for (const std::int32_t label : batch.labels.as<std::int32_t>()) shown[static_cast<std::size_t>(label)] += 1;
    }
    return shown;
  };
  CHECK(counts(tiny()) == std::vector{48, 12, 3, 1});
  CHECK(counts(tiny({"data.sampler=balanced"})) == std::vector{16, 16, 16, 16});
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
