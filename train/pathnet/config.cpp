#include "train/pathnet/config.h"

#include <limits>

#include "core/error.h"
#include "train/config/sections.h"

namespace braid {

namespace {

using Form = models::PathNetOptions::Form;

constexpr double kMaxGrid = 1000;
constexpr int kMaxSeeds = 1000;
const std::vector<std::string> kModels{"pathnet_linear", "pathnet_conv"};
const std::vector<std::string> kTournaments{"concurrent", "sequential"};
const std::vector<std::string> kFrozenPaths{"selectable", "always_active"};

void read_net(ConfigSection section, models::PathNetOptions& net) {
  std::string name;
  section.require("name");
  section.read("name", name, kModels);
  section.read("layers", net.grid.layers, between(1, kMaxGrid));
  section.read("modules", net.grid.modules, between(1, kMaxGrid));
  section.read("active", net.grid.active, between(1, kMaxGrid));
  if (name == "pathnet_conv") {
    net.form = Form::conv;
    net.width = 16;
    section.read("channels", net.width, between(1, kMaxGrid));
    section.reject("units", "has no meaning for the model 'pathnet_conv': its modules have channels");
  } else {
    section.read("units", net.width, between(1, kMaxCount));
    section.reject("channels", "has no meaning for the model 'pathnet_linear': its modules have units");
  }
  section.finish();
}

void read_task(ConfigSection& section, std::string_view key, const DataConfig& data, std::vector<int>& task) {
  std::vector<std::int64_t> classes;
  section.require(key);
  read_classes(section, key, data, classes);
  if (section.has(key) && classes.size() < 2) section.fail(key, "expected two classes or more, as [0, 1]");
  task.assign(classes.begin(), classes.end());
}

/// A list of seeds, or how many, counted from the seed of the session.
void read_seeds(ConfigSection& section, std::uint64_t first, std::vector<std::uint64_t>& seeds) {
  std::vector<std::int64_t> listed;
  if (section.is_list("seeds")) {
    section.read("seeds", listed, at_least(0));
    if (listed.empty()) section.fail("seeds", "expected one seed or more");
    seeds.assign(listed.begin(), listed.end());
    return;
  }
  int count = 5;
  section.read("seeds", count, between(1, kMaxSeeds));
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (first > kLast - kMaxSeeds) section.fail("seeds", "the seed they are counted from is too large");
  seeds.clear();
  for (int i = 0; i < count; ++i) seeds.push_back(first + static_cast<std::uint64_t>(i));
}

void read_evolution(ConfigSection section, PathNetConfig& config) {
  std::string tournament = kTournaments[0], frozen_path = kFrozenPaths[0];
  read_task(section, "task_a", config.data, config.task_a);
  read_task(section, "task_b", config.data, config.task_b);
  read_seeds(section, config.session.seed, config.seeds);
  section.read("population", config.population, between(2, 1e5));
  section.read("tournament", tournament, kTournaments);
  section.read("candidates", config.tournament.candidates, between(2, config.population));
  section.read("batches", config.tournament.batches, between(1, kMaxCount));
  section.read("threshold", config.threshold, {.min = 0, .max = 1, .above_min = true});
  section.read("max_generations", config.max_generations, between(1, kMaxCount));
  section.read("frozen_path", frozen_path, kFrozenPaths);
  if (config.tournament.candidates % 2 != 0) section.fail("candidates", "expected an even number: they fight in pairs");
  section.finish();
  config.tournament.order = tournament == "concurrent" ? Tournament::concurrent : Tournament::sequential;
  config.frozen_path = frozen_path == "selectable" ? FrozenPath::selectable : FrozenPath::always_active;
}

void read_batch_size(ConfigSection section, std::int64_t& batch_size) {
  section.read("batch_size", batch_size, between(1, kMaxCount));
  section.finish();
}

void read_learning_rate(ConfigSection section, double& lr) {
  section.read("lr", lr, above(0));
  section.finish();
}

PathNetConfig read(const ConfigNode& tree) {
  PathNetConfig config;
  ConfigSection root(tree);
  read_name(root, config.name);
  read_session(root, config.session);
  read_precision(root, config.session, config.tournament.dtype);
  const ConfigSection model = root.section("model"), train = root.section("train"),
                      optimizer = root.section("optimizer"), evolution = root.section("evolution"),
                      output = root.section("output");
  ConfigSection data = root.section("data");
  for (const std::string_view key : {"eval", "schedule", "jobs", "balance"}) {
    root.reject(key, "has no meaning in the config of a PathNet run, which a section 'evolution' makes of it");
  }
  root.finish();
  data.reject("only_classes", "has no meaning beside evolution.task_a and evolution.task_b");
  read_net(model, config.net);
  read_section(data, config.data);
  read_batch_size(train, config.batch_size);
  read_learning_rate(optimizer, config.tournament.lr);
  read_evolution(evolution, config);
  read_output(output, config.output_root);
  return config;
}

}  // namespace

std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides) {
  for (const std::string& assignment : overrides) apply_override(tree, assignment);
  if (tree.find("evolution") == nullptr) return std::nullopt;
  return read(tree);
}

std::optional<PathNetConfig> read_pathnet_config(const std::filesystem::path& path,
                                                 const std::vector<std::string>& overrides) {
  return read_pathnet_config(read_config_file(path), overrides);
}

}  // namespace braid
