#include "train/inspect/summary.h"

#include <doctest/doctest.h>

#include "tests/train/single_job.h"

using namespace braid;

namespace {

TrainConfig config(const std::string& model, const std::vector<std::string>& overrides = {}) {
  return parse_train_config("name: x\ndevice: cpu\nmodel: {name: " + model +
                                "}\n"
                                "data: {name: synthetic, size: 4, val_size: 1, image_size: 32, channels: 1}\n"
                                "train: {epochs: 1, batch_size: 4}\n",
                            "x", overrides);
}

}  // namespace

TEST_CASE("a summary has every layer once, with shapes, parameters and MACs of one image") {
  const Summary summary = summarize(config("lenet5"));
  std::vector<std::string> names;
  std::int64_t parameters = 0;
  double macs = 0;
  for (const LayerSummary& layer : summary.layers) {
    if (!layer.name.empty()) names.push_back(layer.name);
    parameters += layer.parameters;
    macs += layer.macs;
  }
  CHECK(names == std::vector<std::string>{"conv1", "conv2", "fc1", "fc2", "fc3"});
  CHECK(summary.input == Shape{4, 32, 32, 1});
  const LayerSummary& conv1 = summary.layers.front();
  CHECK(conv1.output == Shape{4, 32, 32, 6});
  CHECK(conv1.ops == "conv2d");
  CHECK(conv1.parameters == 5 * 5 * 6 + 6);
  CHECK(conv1.macs == 32 * 32 * 6 * 25);
  CHECK(parameters == summary.parameters);
  CHECK(macs == summary.macs);
  CHECK(summary.nodes > 20);
  CHECK(summary.work > summary.depth);
  CHECK(summary.depth > 0);
}

TEST_CASE("a summary in bf16 has the same parameters and MACs, and the casts as nodes") {
  const Summary f32 = summarize(config("resnet20")), bf16 = summarize(config("resnet20", {"precision=bf16"}));
  CHECK(bf16.parameters == f32.parameters);
  CHECK(bf16.macs == f32.macs);
  CHECK(bf16.nodes > f32.nodes);
  CHECK(summarize(config("resnet20", {"precision=f16"})).nodes > bf16.nodes);  // the loss scale
}

TEST_CASE("a net of branches offers more concurrency than a chain") {
  const Summary chain = summarize(config("squeezenet1_1")), branches = summarize(config("googlenet"));
  CHECK(branches.work / branches.depth > chain.work / chain.depth);
}

TEST_CASE("a summary can be cut at a depth") {
  const Summary blocks = summarize(config("resnet20"), 1);
  CHECK(blocks.layers[2].name == "layer1");
  CHECK(blocks.layers[2].ops == "conv2d, batch_norm");
  CHECK(blocks.layers[2].parameters == 3 * (2 * 16 * 16 * 9 + 4 * 16));
  CHECK(blocks.parameters == summarize(config("resnet20")).parameters);
}
