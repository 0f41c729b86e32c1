// Networks that a config describes layer by layer.

#include <doctest/doctest.h>

#include "tests/train/single_job.h"
#include "train/inspect/summary.h"

using namespace braid;
using namespace braid::testing;

namespace {

const std::string kRest = "data: {name: synthetic, image_size: 8, channels: 1, classes: 5}\ntrain: {epochs: 1}\n";
const std::string kLayers =
    "name: x\n"
    "model:\n"
    "  layers:\n"
    "    - {type: conv, name: a, channels: 4, kernel: [3, 1], padding: same, bias: false}\n"
    "    - {type: conv, from: input, channels: 4, kernel: 3, padding: [1, 1], activation: relu}\n"
    "    - {type: concat, from: [a, '1']}\n"
    "    - {type: max_pool, kernel: 2}\n"
    "    - {type: flatten}\n"
    "    - {type: dropout, p: 0.25}\n"
    "    - {type: linear, name: fc}\n";

/// The error of the config in which one text stands for another.
std::string error_with(const std::string& text, const std::string& replacement) {
  std::string config = kLayers + kRest;
  const std::size_t at = config.find(text);
  REQUIRE(at != std::string::npos);
  config.replace(at, text.size(), replacement);
  return error_in(config);
}

}  // namespace

TEST_CASE("layers are read with their defaults, written as they were read, and make the network") {
  const TrainConfig config = parse_train_config(kLayers + kRest, "x.yaml", {"model.layers.a.channels=6"});
  const std::vector<models::LayerSpec>& layers = config.model.layers;
  REQUIRE(layers.size() == 7);
  CHECK(layers[0].channels == 6);
  CHECK(layers[0].padding == std::vector{models::LayerSpec::kSame});
  CHECK_FALSE(layers[0].bias);
  CHECK(layers[1].name == "1");
  CHECK(layers[1].from == std::vector<std::string>{"input"});
  CHECK(layers[1].kernel == std::vector<std::int64_t>{3});
  CHECK(layers[2].from == std::vector<std::string>{"a", "1"});
  CHECK(layers[5].p == 0.25);
  CHECK(layers[6].size == 0);
  const std::string text = to_yaml(config);
  for (const char* line :
       {"    - type: conv\n      name: \"a\"\n      channels: 6\n      kernel: [3, 1]\n      padding: same\n",
        "from: \"input\"\n", "from: [\"a\", \"1\"]\n", "padding: [1, 1]\n", "      kernel: 2\n      padding: 0\n",
        "size: classes\n"}) {
    CAPTURE(line);
    CHECK(contains(text, line));
  }
  CHECK_FALSE(contains(text, "  name: \"\""));
  CHECK(to_yaml(parse_train_config(text, "y.yaml")) == text);

  const Summary summary = summarize(config);
  CHECK(summary.parameters == 3 * 6 + (9 * 4 + 4) + (10 * 4 * 4 * 5 + 5));
  CHECK(summary.model == "own network");
  CHECK(summary.layers.back().output == Shape{64, 5});
  CHECK(summary.layers.back().name == "fc");
}

TEST_CASE("a config of a named network says nothing about layers") {
  const std::string text = to_yaml(parse_train_config("name: x\nmodel: {name: mlp}\n" + kRest, "x.yaml"));
  CHECK_FALSE(contains(text, "layers"));
}

TEST_CASE("mistakes in layers are errors with their line, the layer's name and what to do") {
  const std::pair<std::pair<const char*, const char*>, const char*> rows[] = {
      {{"type: flatten", "type: flaten"}, "x.yaml:8:14: model.layers.4.type: expected one of conv, "},
      {{"type: flatten", "type: flaten"}, "got 'flaten' (did you mean 'flatten'?)"},
      {{"type: flatten", "name: f"}, "x.yaml:8:7: model.layers.f.type: this key is required"},
      {{"type: flatten", "type: flatten, name: a.b"},
       "x.yaml:8:29: model.layers.a.b.name: expected at most 100 letters"},
      {{"type: flatten", "type: flatten, p: 0.5"},
       "x.yaml:8:23: model.layers.4.p: has no meaning for the type 'flatten'"},
      {{"channels: 4, kernel: [", "out: 4, kernel: ["},
       "x.yaml:4:29: model.layers.a.out: unknown key (did you mean 'channels'?)"},
      {{"name: fc", "name: fc, units: 3"}, "x.yaml:10:32: model.layers.fc.units: unknown key (did you mean 'size'?)"},
      {{"channels: 4, kernel: [", "kernel: ["}, "x.yaml:4:7: model.layers.a.channels: this key is required"},
      {{"[3, 1]", "[3, 1, 1]"}, "model.layers.a.kernel: expected 1 to 2 values, got 3"},
      {{"padding: same", "padding: some"},
       "model.layers.a.padding: expected 'same' or an integer in [0, 1024], got 'some'"},
      {{"padding: same", "padding: [same]"}, "model.layers.a.padding: expected an integer in [0, 1024], got 'same'"},
      {{"activation: relu", "activation: rellu"}, "model.layers.1.activation: expected one of none, relu"},
      {{"[a, '1']", "[a, b]"}, "x.yaml:6:28: model.layers.2.from: there is no layer 'b'"},
      {{"[a, '1']", "a"}, "model.layers.2.from: expected the names of two or more layers that 'concat' joins"},
      {{"[a, '1']", "[input, '1']"}, "x.yaml:4:26: model.layers.a.name: no other layer reads 'a'"},
      {{"name: fc", "name: a"}, "x.yaml:10:28: model.layers.a.name: another layer already has the name 'a'"},
      {{"  layers:", "  name: mlp\n  layers:"}, "x.yaml:3:3: model.name: has no meaning together with 'layers'"},
      {{"  layers:", "  width: 2\n  layers:"}, "x.yaml:3:3: model.width: has no meaning together with 'layers'"},
      {{"model:\n  layers:", "model: {freeze: []}\nlayers:"},
       "x.yaml:3:1: layers: unknown key (did you mean 'model.layers'?)"},
  };
  for (const auto& [change, expected] : rows) {
    const std::string error = error_with(change.first, change.second);
    CAPTURE(expected);
    CAPTURE(error);
    CHECK(contains(error, expected));
  }
  const auto error_of_model = [](const std::string& model) {
    return error_in("name: x\nmodel: " + model + "\n" + kRest);
  };
  CHECK(error_of_model("{}") == "x.yaml:2:8: model.name: this key or 'layers' is required");
  CHECK(error_of_model("{layers: []}") == "x.yaml:2:17: model.layers: expected a list of sections, got an empty list");
  CHECK(error_of_model("{layers: 3}") == "x.yaml:2:17: model.layers: expected a list of sections, got '3'");
}

TEST_CASE("jobs may have networks of layers, shared or their own") {
  const std::string shared = kLayers + "data: {name: synthetic, classes: 5}\n";
  const RunConfig run = read_run_config(
      parse_config(shared + "jobs:\n"
                            "  - {name: a, train: {epochs: 1}}\n"
                            "  - {name: b, train: {epochs: 1}, model: {name: mlp}}\n"
                            "  - {name: c, train: {epochs: 1}, model: {layers: [{type: flatten}, {type: linear}]}}\n",
                   "x.yaml"));
  CHECK(run.jobs[0].training.model.layers.size() == 7);
  CHECK(run.jobs[1].training.model.name == "mlp");
  CHECK(run.jobs[1].training.model.layers.empty());
  CHECK(run.jobs[2].training.model.layers.size() == 2);
  const std::string text = to_yaml(run);
  CHECK(to_yaml(read_run_config(parse_config(text, "y.yaml"))) == text);
  const std::string named =
      "name: x\nmodel: {name: mlp}\ndata: {name: synthetic}\njobs:\n  - {name: a, train: {epochs: 1}}\n";
  const RunConfig own = read_run_config(parse_config(
      named + "  - {name: c, train: {epochs: 1}, model: {layers: [{type: flatten}, {type: linear}]}}\n", "x.yaml"));
  CHECK(own.jobs[1].training.model.layers.size() == 2);
}
