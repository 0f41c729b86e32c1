#include "train/run/strategy.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <optional>

#include "core/comm/local/local_ranks.h"
#include "scheduler/costs/known_devices.h"
#include "tests/core/on_all.h"
#include "tests/data/files.h"
#include "train/checkpoint/files.h"

using namespace braid;
using namespace braid::testing;

namespace {

const std::vector<LayerDimensions> kLayers{
    {"conv", {"n", "h", "w", "c"}}, {"fc1", {"n", "c"}, true}, {"fc2", {"n"}, true}};
/// Their dimensions on a mesh of two axes.
const std::vector<LayerDimensions> kOnTwoAxes{{"conv", {"nn", "nh", "hw", "cc", "c_", "_c"}},
                                              {"fc1", {"nn", "cc", "nc", "c_", "_c"}, true},
                                              {"fc2", {"nn", "n_", "_n"}, true}};

Strategy strategy_of(TrainConfig config, DatasetPool& datasets) {
  set_strategy(config, datasets);
  return config.session.parallel.layers;
}

}  // namespace

TEST_CASE("one weird trick divides fully connected layers along channels where the ranks get equal parts") {
  CHECK(one_weird_trick(kLayers) == Strategy{{"fc1", "c"}, {"fc2", "n"}});
}

TEST_CASE("one weird trick divides the linear layers of a model; data parallelism and a single shard divide none") {
  TrainConfig config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.image_size = 28;
  config.session.parallel = {.virtual_ranks = 4, .strategy = "owt"};
  DatasetPool datasets;
  CHECK(strategy_of(config, datasets) == Strategy{{"fc1", "c"}, {"fc2", "c"}, {"fc3", "n"}});
  config.session.parallel.strategy = "data";
  CHECK(strategy_of(config, datasets).empty());
  config.session.parallel = {.strategy = "owt"};  // a single shard
  CHECK(strategy_of(config, datasets).empty());
}

TEST_CASE("all ranks get the strategy that the first one finds") {
  const auto ranks = std::make_shared<LocalRanks>(2, Link{.latency_seconds = 1e-5, .bytes_per_second = 1e6});
  for (const char* name : {"layerwise", "auto", "pipeline"}) {
    std::array<Strategy, 2> found;
    const auto errors = on_all<std::exception>(*ranks, [&](Communicator& own) {
      TrainConfig config;
      config.model.name = "lenet5";
      config.data.name = "synthetic";
      config.data.image_size = 28;
      config.batch_size = 4;
      config.session.device = "cpu";
      config.session.parallel = {.communicator = {ranks, &own}, .strategy = name};
      DatasetPool datasets;
      set_strategy(config, datasets);
      const ParallelOptions& set = config.session.parallel;
      found[static_cast<std::size_t>(own.rank())] = set.layers;
      // A run that continues has the micro-batches of its pipeline, whatever auto would take then.
      CHECK((set.strategy == "pipeline") == (set.stages() > 1));
      CHECK((set.virtual_ranks > 0) == (set.stages() > 1));
    });
    CHECK(errors == std::vector<std::string>(2));
    CHECK(found[0] == found[1]);
    if (found[0].stages.size() == 1) continue;
    CHECK(found[0].at("fc1") != "n");  // gradients of its weights are larger than activations, and the link is slow
  }
}

TEST_CASE("auto takes a pipeline where it is the fastest, unless other options, the batch or the layers exclude it") {
  // A stage sends activations of few samples, which are smaller than gradients, once each way.
  TrainConfig config;
  config.model.name = "lenet5";
  config.data.name = "synthetic";
  config.data.image_size = 28;
  config.batch_size = 16;
  DatasetPool datasets;
  const auto stages = [&](const ParallelOptions& parallel, int count = 2, std::optional<int> micro_batches = 0) {
    const auto ranks = std::make_shared<LocalRanks>(count);
    config.session.parallel = parallel;
    config.session.parallel.strategy = "auto";
    config.session.parallel.bucket_bytes = 1 << 20;  // none to search
    config.session.parallel.communicator = {ranks, &ranks->of(0)};
    DeviceInfo device = scheduler::known_device("p100");
    device.link = {.latency_seconds = 1e-5, .bytes_per_second = 1e7};
    return find_strategy(
               config, datasets, config.batch_size, [&] { return device; }, micro_batches)
        .stages.size();
  };
  CHECK(stages({}) == 1);
  CHECK(stages({.virtual_ranks = 4}, 2, 4) == 1);
  CHECK(stages({}, 2, 1) == 1);
  CHECK(stages({}, 2, std::nullopt) == 0);
  CHECK(stages({.virtual_ranks = 6}, 2, 6) == 0);  // does not divide 16 samples
  CHECK(stages({.zero = Sharded::optimizer}) == 0);
  CHECK(stages({.sync_batch_norm = true}) == 0);
  CHECK(stages({.steps_per_execution = 2}) == 0);
  CHECK(stages({.staleness = 1}) == 0);
  config.model.name = "mlp";
  CHECK(stages({}) == 1);
  CHECK(stages({}, 4) == 0);  // it has three layers
}

TEST_CASE("a strategy is read as it is written, and mistakes in it are errors with their place") {
  const TemporaryFolder folder;
  const std::string path = std::filesystem::path(folder.path()) / "strategy.json";
  const auto read = [&](const std::string& text, int shards = 2) {
    write_file(path, text);
    return read_strategy(
        path, [](int second_axis) { return second_axis == 1 ? kLayers : kOnTwoAxes; }, shards);
  };
  const Strategy strategy{{"conv", "h"}, {"fc1", "c"}, {"fc2", "_"}};
  CHECK(read(to_json(strategy, 2)) == strategy);
  CHECK(read("layers:\n  conv: {w: 4}\n", 4) == Strategy{{"conv", "w"}});
  CHECK(read(to_json({}, 2)).empty());
  // On one axis if possible, else on the mesh with the fewest shards along the second.
  Strategy on_mesh{{"conv", "hw"}, {"fc1", "cc"}, {"fc2", "n_"}};
  on_mesh.second_axis = 2;
  CHECK(to_json(on_mesh, 8).find("\"conv\": {\"h\": 4, \"w\": 2}") != std::string::npos);
  CHECK(read(to_json(on_mesh, 8), 8) == on_mesh);
  CHECK(read("layers: {fc1: {c: 3}}", 9) == [] {
    Strategy third{{"fc1", "c_"}};
    third.second_axis = 3;
    return third;
  }());
  CHECK(read("layers: {fc1: {n: 2, c: 2}, fc2: {n: 4}}", 4).at("fc2") == "nn");
  CHECK(read("layers: {fc1: {_: 2, c: 2}, conv: {n: 2, h: 2}}", 4) == [] {
    Strategy second{{"fc1", "_c"}, {"conv", "nh"}};
    second.second_axis = 2;
    return second;
  }());
  Strategy all_samples{{"fc2", "nn"}};
  all_samples.second_axis = 2;
  CHECK(read(to_json(all_samples, 4), 4) == all_samples);
  // The mesh that fits most layers says what does not fit.
  CHECK_THROWS_WITH_AS(
      read("layers: {conv: {h: 2, w: 2}, fc1: {c: 3}}", 4),
      (path + ":1:30: layers.fc1: expected parts for 4 shards, {\"n\": 4}, {\"c\": 4}, {\"n\": 2, \"c\": 2}, "
              "{\"c\": 2}, {\"_\": 2, \"c\": 2}, {\"n\": 1}, got {\"c\": 3}")
          .c_str(),
      ConfigError);
  struct Mistake {
    std::string text, error;
  };
  for (const Mistake& mistake :
       {Mistake{"layers: {fc3: {c: 2}}", ":1:10: layers: the model has no layer 'fc3' (did you mean 'fc1'?)"},
        {"layers: {fc2: {n: 4}}",
         ":1:10: layers.fc2: expected parts for 2 shards, {\"n\": 2}, {\"n\": 1}, got {\"n\": 4}"},
        {"layers: {fc1: {h: 2}}",
         ":1:10: layers.fc1: expected parts for 2 shards, {\"n\": 2}, {\"c\": 2}, {\"n\": 1}, got {\"h\": 2}"},
        {"layers: {fc1: {k: 2}}",
         ":1:16: layers.fc1: expected n (samples), h (height), w (width) or c (channels), got 'k'"},
        {"layers: {fc1: {c: two}}", ":1:19: layers.fc1.c: expected a number of parts, got 'two'"},
        {"layers: {fc1: 2}",
         ":1:10: layers.fc1: expected dimensions and their numbers of parts, as in {c: 4} or {h: 2, w: 2}"},
        {"{second_axis: 3, layers: {}}", ":1:15: second_axis: expected a divisor of the 2 shards below them, got 3"},
        {"layer: {}", ":1:1: expected the keys 'layers' and 'second_axis', got 'layer'"},
        {"", ": expected 'layers' with the dimensions of each, as in {layers: {fc: {c: 2}}}"}}) {
    CAPTURE(mistake.text);
    CHECK_THROWS_WITH_AS(read(mistake.text), (path + mistake.error).c_str(), ConfigError);
  }
}
