// Networks that do not map an image to a class learn from their configs, too.

#include <doctest/doctest.h>

#include <cmath>

#include "models/zoo/tasks/dcgan.h"
#include "tests/data/files.h"
#include "tests/train/quiet_training.h"
#include "tests/train/run_files.h"
#include "tests/train/single_job.h"
#include "train/checkpoint/checkpoint.h"
#include "train/report/val_images.h"
#include "train/run/factories.h"
#include "train/run/predictor.h"

using namespace braid;
using namespace braid::testing;

namespace {

TrainConfig config_of(const TemporaryFolder& folder, const std::string& model, const std::string& data) {
  return parse_train_config("name: task\ndevice: cpu\nthreads: 2\nmodel: {name: " + model + ", width: 0.125}\ndata: {" +
                                data + ", normalize: {mean: [0.4], std: [0.3]}}\n" +
                                "train: {epochs: 4, batch_size: 16}\noptimizer: {name: adamw, lr: 0.01}\n",
                            "task.yaml", {"output.root=" + folder.path()});
}

}  // namespace

TEST_CASE("a U-Net learns the classes of pixels, and its test counts them") {
  const TemporaryFolder folder;
  const TrainConfig config =
      config_of(folder, "unet", "name: shapes, size: 320, val_size: 24, image_size: 16, channels: 1, classes: 2");
  const TrainResult result = train(config);
  CHECK(result.failure_text() == "");
  CHECK(result.val.samples == 24);
  CHECK(result.val.top1 > 0.9);
  const double pixels = 24 * 16 * 16;
  CHECK(result.val.top1 * pixels == std::round(result.val.top1 * pixels));

  const ValImages images = look_at_val_images(config, result.folder / "model.safetensors", 8);
  CHECK(images.images == 24);
  CHECK(images.accuracy == doctest::Approx(result.val.top1));
  CHECK(images.loss == doctest::Approx(result.val.loss).epsilon(1e-4));
  CHECK(images.mistakes.empty());
  std::int64_t counted = 0;
  for (const auto& [classes, count] : images.confusion) counted += count;
  CHECK(counted == 24 * 16 * 16);

  Predictor predictor(config, result.folder / "model.safetensors");
  const Bytes grey(16 * 16, 100);
  CHECK_THROWS_WITH_AS(
      predictor(std::vector{Image{{16, 16, 1}, grey}}),
      doctest::Contains("[predict] expected a network that gives each image a class, got one that gives"), Error);
}

TEST_CASE("a DCGAN learns to make images like those of the data, and the seed decides how") {
  const TemporaryFolder folder;
  const TrainConfig config = parse_train_config(
      "name: gan\ndevice: cpu\nthreads: 2\nmodel: {name: dcgan, width: 0.125}\n"
      "data: {name: synthetic, size: 320, val_size: 64, image_size: 16, channels: 1, classes: 1,\n"
      "       normalize: {mean: [1.0], std: [0.6]}}\n"  // -0.83 on average
      "train: {epochs: 20, batch_size: 16}\noptimizer: {name: adam, lr: 1.0e-3, beta1: 0.5}\n",
      "gan.yaml", {"output.root=" + folder.path()});
  const TrainResult result = train(config);
  CHECK(result.failure_text() == "");
  CHECK(std::isfinite(result.val.loss));
  const auto mean_pixel = [&](bool trained) {
    Session session(config.session);
    DatasetPool datasets;
    const auto model = make_model(config.model, session, *datasets.get(config, Split::val));
    if (trained) load_checkpoint(result.folder / "model.safetensors", session, model->tensors());
    model->eval();
    Step step = session.step();
    return mean(dynamic_cast<models::Dcgan&>(*model).generate(64)).item();
  };
  CHECK(std::abs(mean_pixel(false)) < 0.2);
  CHECK(mean_pixel(true) < -0.5);  // -0.59 to -0.74 with eight seeds

  TrainConfig few_steps = config;
  few_steps.max_steps = 5;
  CHECK(train(few_steps).val.loss == train(few_steps).val.loss);
}

TEST_CASE("a siamese network learns to tell pairs of one class from others") {
  const TemporaryFolder folder;
  const TrainConfig config =
      config_of(folder, "siamese",
                "name: synthetic, pairs: true, size: 480, val_size: 96, image_size: 8, channels: 1, classes: 3");
  const TrainResult result = train(config);
  CHECK(result.failure_text() == "");
  CHECK(result.val.samples == 96);
  CHECK(result.val.top1 > 0.9);
}

TEST_CASE("either network of a DCGAN can be frozen") {
  const TemporaryFolder folder;
  for (const std::string frozen : {"generator", "discriminator"}) {
    CAPTURE(frozen);
    TrainConfig config = parse_train_config(
        "name: gan\ndevice: cpu\nmodel: {name: dcgan, width: 0.125, freeze: [" + frozen +
            ".*]}\ndata: {name: synthetic, size: 32, val_size: 8, image_size: 8, channels: 1, classes: 1}\n" +
            "train: {epochs: 1, batch_size: 16}\noptimizer: {name: adam}\n",
        "gan.yaml", {"output.root=" + folder.path()});
    CHECK(train(config).failure_text() == "");
  }
}
