#include "train/pathnet/config.h"

#include <limits>

#include "core/error.h"

namespace braid {

namespace {

using Form = models::PathNetOptions::Form;

constexpr double kMaxGrid = 1000;

}  // namespace

void PathNetConfig::declare_net(const Keys& keys) {
  const Form before = net.form;
  keys("name", net.form, {.words = {"pathnet_linear", "pathnet_conv"}, .required = true},
       "what a module is: a fully connected layer with ReLU, or (ours) a 3×3 convolution with batch norm and ReLU");
  keys("layers", net.grid.layers, {.min = 1, .max = kMaxGrid}, "L");
  keys("modules", net.grid.modules, {.min = 1, .max = kMaxGrid}, "M, of a layer");
  keys("active", net.grid.active, {.min = 1, .max = kMaxGrid}, "N: a path uses at most this many modules of a layer");
  if (net.form == Form::conv) {
    if (net.form != before) net.width = 16;
    keys("channels", net.width, {.min = 1, .max = kMaxGrid},
         "of a module of the first layer; each further layer has twice as many");
  } else {
    keys("units", net.width, {.min = 1, .max = KeyRule::kMaxCount}, "of a module");
  }
}

void PathNetConfig::declare_task(const Keys& keys, std::string_view key, std::vector<int>& task,
                                 std::string_view text) {
  std::vector<std::int64_t> classes(task.begin(), task.end());
  data.declare_classes(keys, key, classes, {.min_items = 2, .required = true}, text);
  task.assign(classes.begin(), classes.end());
}

void PathNetConfig::declare_seeds(const Keys& keys) {
  constexpr int kMaxSeeds = 1000;
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::vector<std::int64_t> listed(seeds.begin(), seeds.end());
  int count = 5;
  if (listed.empty()) {
    keys("seeds", count, {.min = 1, .max = kMaxSeeds}, "runs to make, with the seeds that follow from `seed` on");
  }
  keys("seeds", listed, {.min = 0, .min_items = 1}, "or their seeds");
  seeds.assign(listed.begin(), listed.end());
  if (!seeds.empty()) return;
  keys.check("seeds", session.seed <= kLast - kMaxSeeds, "the seed they are counted from is too large");
  for (int i = 0; i < count; ++i) seeds.push_back(session.seed + static_cast<std::uint64_t>(i));
}

void PathNetConfig::declare_evolution(const Keys& keys) {
  declare_task(keys, "task_a", task_a, "classes of the first task");
  declare_task(keys, "task_b", task_b, "classes of the second task");
  declare_seeds(keys);
  keys("population", population, {.min = 2, .max = 1e5}, "genotypes that evolve");
  keys("tournament", tournament.order, {.words = {"concurrent", "sequential"}},
       "whether candidates train in common steps or, as in the paper, one after the other");
  keys("candidates", tournament.candidates, {.min = 2, .max = 1e5, .max_now = static_cast<double>(population)},
       "genotypes that train in a generation: an even number, as they fight in pairs, and at most the population");
  keys.check("candidates", tournament.candidates % 2 == 0, "expected an even number: they fight in pairs");
  keys("batches", tournament.batches, {.min = 1, .max = KeyRule::kMaxCount},
       "T: mini-batches that each candidate trains on");
  keys("threshold", threshold, {.above = 0, .max = 1}, "training accuracy of a candidate at which its task is learned");
  keys("max_generations", max_generations, {.min = 1, .max = KeyRule::kMaxCount}, "of one task");
  keys("frozen_path", frozen_path, {.words = {"selectable", "always_active"}},
       "whether task B's paths may use the modules of task A's path, or all of them do");
}

void PathNetConfig::declare(const Keys& keys) {
  declare_name(keys, name);
  declare_seed(keys, session.seed);
  declare_session(keys, session);
  declare_precision(keys, session, tournament.dtype);
  for (const std::string_view key : {"eval", "schedule", "jobs", "balance"}) {
    keys.reject(key, "has no meaning in the config of a PathNet run, which a section 'evolution' makes of it");
  }
  declare_net(keys.section("model", "the network"));
  const Keys of_data = keys.section("data", "the images");
  of_data.reject("only_classes", "has no meaning beside evolution.task_a and evolution.task_b");
  data.declare(of_data);
  keys.section("train", "how candidates train")("batch_size", batch_size, {.min = 1, .max = KeyRule::kMaxCount},
                                                "images in a step");
  keys.section("optimizer", "how weights are updated")("lr", tournament.lr, {.above = 0}, "of plain SGD");
  declare_evolution(keys.section("evolution", "two tasks, and how the paths for them evolve"));
  declare_output(keys, output_root);
}

std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  if (tree.find("evolution") == nullptr) return std::nullopt;
  return read_config<PathNetConfig>(tree);
}

std::optional<PathNetConfig> read_pathnet_config(const std::filesystem::path& path,
                                                 const std::vector<std::string>& overrides) {
  return read_pathnet_config(read_config_file(path), overrides);
}

std::string to_yaml(PathNetConfig config) {
  return to_yaml(note_keys([&](const Keys& keys) { config.declare(keys); }));
}

}  // namespace braid
