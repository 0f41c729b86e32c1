// What a training whose loss is not finite reports as the cause.

#include <doctest/doctest.h>

#include "tests/data/files.h"
#include "tests/train/quiet_training.h"
#include "train/checkpoint/safetensors.h"

using namespace braid;
using namespace braid::testing;

namespace {

const std::string kTiny =
    "name: tiny\n"
    "device: cpu\n"
    "streams: 2\n"
    "model: {name: resnet20, width: 0.25}\n"
    "data: {name: synthetic, size: 64, val_size: 16, image_size: 8, channels: 1, classes: 4}\n"
    "train: {epochs: 3, batch_size: 16}\n"
    "optimizer: {lr: 0.05}\n";

std::string failure(const TemporaryFolder& folder, std::vector<std::string> overrides) {
  overrides.push_back("output.root=" + folder.path());
  return error_of<Error>([&] { finish(read_run_config(parse_config(kTiny, "tiny.yaml"), overrides)); });
}

/// Trains, and spoils one element of a tensor of the trained model.
std::string spoilt_weights(const TemporaryFolder& folder, const std::string& tensor, float value) {
  const std::vector<std::string> once{"train.epochs=1", "output.root=" + folder.path()};
  const auto trained = finish(read_run_config(parse_config(kTiny, "tiny.yaml"), once)).result.folder;
  const SafeTensors file(trained / "model.safetensors");
  std::vector<NamedArray> tensors;
  for (const auto& [name, entry] : file.entries()) {
    tensors.push_back({name, file.array(name)});
    if (name == tensor) tensors.back().value.as<float>()[3] = value;
  }
  const std::string path = folder.path() + "/spoilt.safetensors";
  write_safetensors(path, tensors, file.metadata());
  return "model.weights=" + path;
}

}  // namespace

TEST_CASE("the node whose output is the first not to be finite is named") {
  const TemporaryFolder folder;
  SUBCASE("in the forward pass") {
    const std::string weights = spoilt_weights(folder, "layer2.1.conv2.weight", 3e38f);
    const std::string text = failure(folder, {weights});
    CHECK(contains(text, "[train] the loss is "));
    CHECK(contains(text, " at step 1 "));
    CHECK(contains(text,
                   "; the first value that is not finite comes from conv2d of layer2.1.conv2, in the forward pass "
                   "of step 1"));
  }
  SUBCASE("in an update: the loss of the step after it tells") {
    const std::string text = failure(folder, {"optimizer.lr=1e39"});
    CHECK(contains(text, " at step 2 (epoch 1, learning rate 1e+39)"));
    CHECK_FALSE(contains(text, "-nan"));
    CHECK(contains(text, "in the update of step 1"));
  }
  SUBCASE("with loss scaling, which skips updates by gradients that are not finite") {
    const std::string weights = spoilt_weights(folder, "layer2.1.conv2.weight", 6e4f);
    CHECK(contains(failure(folder, {weights, "precision=f16"}),
                   "conv2d of layer2.1.conv2, in the forward pass of step 1"));
  }
}

TEST_CASE("the cause is the same from whichever checkpoint training is repeated") {
  const TemporaryFolder folder;
  const std::vector<std::string> diverging{"optimizer.lr=1e5"};
  const auto with = [&](const std::string& override) {
    std::vector<std::string> all = diverging;
    all.push_back(override);
    return failure(folder, all);
  };
  const std::string text = with("checkpoint.every_n_steps=0");
  CHECK(contains(text, "; the first value that is not finite comes from "));
  CHECK(with("checkpoint.every_n_steps=1") == text);
  CHECK(with("checkpoint={every_n_steps: 1, keep_last: 1}") == text);
}
