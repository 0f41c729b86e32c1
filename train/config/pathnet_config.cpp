#include "train/config/pathnet_config.h"

#include <limits>

namespace braid {

void PathNetConfig::declare(const Keys& keys) {
  declare_name(keys, name);
  declare_seed(keys, session.seed);
  declare_session(keys, session);
  declare_precision(keys, session, tournament.dtype);
  for (const std::string_view key : {"eval", "schedule", "jobs", "balance"}) {
    keys.reject(key, "has no meaning in the config of a PathNet run, that is, one with a section 'evolution'");
  }
  declare_net(keys.section("model", "the network"));
  const Keys of_data = keys.section("data", "the images");
  of_data.reject("only_classes", "has no meaning together with evolution.task_a and evolution.task_b");
  data.declare(of_data);
  of_data.check("name", !data.has_masks(), "PathNet gives each image a class, and these have one for each pixel");
  of_data.check("normalize", !data.compute_normalization,
                "nothing computes mean and std for a PathNet run: 'braid data' shows them");
  keys.section("train", "how candidates train")("batch_size", batch_size, {.min = 1, .max = KeyRule::kMaxCount},
                                                "images in a step");
  keys.section("optimizer", "how weights are updated")("lr", tournament.lr, {.above = 0}, "learning rate of plain SGD");
  declare_evolution(keys.section("evolution", "two tasks, and how the paths for them evolve"));
  declare_output(keys, output_root);
  keys.check("parallel", !session.parallel.exchanges_otherwise(),
             "a PathNet run has neither compression nor staleness nor average_every");
}

void PathNetConfig::declare_net(const Keys& keys) {
  const auto before = net.form;
  keys("name", net.form, {.words = {"pathnet_linear", "pathnet_conv"}, .required = true},
       "the module: a fully connected layer with ReLU, or (ours) a 3×3 convolution with batch norm and ReLU");
  keys("layers", net.grid.layers, {.min = 1, .max = 1000}, "L: layers");
  keys("modules", net.grid.modules, {.min = 1, .max = 1000}, "M: modules in a layer");
  keys("active", net.grid.active, {.min = 1, .max = 1000}, "N: limit of a path's modules in a layer");
  if (net.form == models::PathNetOptions::Form::conv) {
    if (net.form != before) net.width = 16;
    keys("channels", net.width, {.min = 1, .max = 1000},
         "channels of a module in the first layer; each further layer doubles them");
  } else {
    keys("units", net.width, {.min = 1, .max = KeyRule::kMaxCount}, "units of a module");
  }
}

void PathNetConfig::declare_evolution(const Keys& keys) {
  const KeyRule rule{.min_items = 2, .required = true};
  data.declare_classes(keys, "task_a", task_a, rule, "classes of the first task");
  data.declare_classes(keys, "task_b", task_b, rule, "classes of the second task");
  declare_seeds(keys);
  keys("population", population, {.min = 2, .max = 1e5}, "genotypes that evolve");
  keys("tournament", tournament.order, {.words = {"concurrent", "sequential"}},
       "`concurrent` trains the candidates in the same steps; `sequential`, as in the paper, one after the other");
  keys("candidates", tournament.candidates, {.min = 2, .max = 1e5, .max_now = static_cast<double>(population)},
       "genotypes that train in a generation: an even number, because they compete in pairs, and at most the "
       "population");
  keys.check("candidates", tournament.candidates % 2 == 0, "expected an even number: they compete in pairs");
  keys("batches", tournament.batches, {.min = 1, .max = KeyRule::kMaxCount},
       "T: mini-batches that each candidate trains on");
  keys("threshold", threshold, {.above = 0, .max = 1},
       "training accuracy of a candidate at which a task counts as learned");
  keys("max_generations", max_generations, {.min = 1, .max = KeyRule::kMaxCount}, "limit for one task");
  keys("frozen_path", frozen_path, {.words = {"selectable", "always_active"}},
       "`selectable`: paths of task B may use the modules of task A's path; `always_active`: all of them do");
}

void PathNetConfig::declare_seeds(const Keys& keys) {
  constexpr int kMaxSeeds = 1000;
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::vector<std::int64_t> listed(seeds.begin(), seeds.end());
  int count = 5;
  if (listed.empty()) {
    keys("seeds", count, {.min = 1, .max = kMaxSeeds}, "number of runs, with seeds counted up from `seed`");
  }
  keys("seeds", listed, {.min = 0, .min_items = 1}, "or a list of their seeds");
  seeds.assign(listed.begin(), listed.end());
  if (!seeds.empty()) return;
  keys.check("seeds", session.seed <= kLast - kMaxSeeds, "'seed', from which they are counted, is too large");
  for (int i = 0; i < count; ++i) seeds.push_back(session.seed + static_cast<std::uint64_t>(i));
}

std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  if (tree.find("evolution") == nullptr) return std::nullopt;
  return read_config<PathNetConfig>(tree);
}

std::string to_yaml(PathNetConfig config) {
  return to_yaml(note_keys([&](const Keys& keys) { config.declare(keys); }));
}

}  // namespace braid
