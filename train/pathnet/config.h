#pragma once
// The settings of a PathNet run, from a config with a section `evolution`: two tasks, a net, and how its paths evolve.

#include <limits>
#include <optional>

#include "models/zoo/wired/pathnet.h"
#include "train/config/config.h"
#include "train/pathnet/tournament.h"

namespace braid {

/// How task B uses task A's path, whose modules are frozen.
enum class FrozenPath {
  selectable,     ///< evolution may select its modules
  always_active,  ///< every path also uses its modules
};

struct PathNetConfig {
  std::string name;                       ///< name of the run folders
  std::vector<std::uint64_t> seeds = {};  ///< one for each run
  /// Not `streams: auto`: every new path is a new plan, and measuring each would cost more than it gains.
  SessionOptions session = {.streams = 1, .width = 1};
  models::PathNetOptions net;  ///< except image_shape, which comes from the dataset
  DataConfig data;
  std::vector<int> task_a, task_b;  ///< classes of the dataset
  std::int64_t batch_size = 16;
  TournamentOptions tournament;
  int population = 64;
  FrozenPath frozen_path = FrozenPath::selectable;
  double threshold = 0.95;
  int max_generations = 500;
  std::string output_root = "runs";

  void declare(const Keys& keys) {
    declare_name(keys, name);
    declare_seed(keys, session.seed);
    declare_session(keys, session);
    declare_precision(keys, session, tournament.dtype);
    for (const std::string_view key : {"eval", "schedule", "jobs", "balance"}) {
      keys.reject(key, "has no meaning in the config of a PathNet run, that is, beside a section 'evolution'");
    }
    declare_net(keys.section("model", "the network"));
    const Keys of_data = keys.section("data", "the images");
    of_data.reject("only_classes", "has no meaning beside evolution.task_a and evolution.task_b");
    data.declare(of_data);
    of_data.check("name", !data.has_masks(), "PathNet gives each image a class, and these have one for each pixel");
    of_data.check("normalize", !data.compute_normalization,
                  "nothing computes mean and std for a PathNet run: 'braid data' shows them");
    keys.section("train", "how candidates train")("batch_size", batch_size, {.min = 1, .max = KeyRule::kMaxCount},
                                                  "images in a step");
    keys.section("optimizer", "how weights are updated")("lr", tournament.lr, {.above = 0},
                                                         "learning rate of plain SGD");
    declare_evolution(keys.section("evolution", "two tasks, and how the paths for them evolve"));
    declare_output(keys, output_root);
  }

  void declare_net(const Keys& keys) {
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

  void declare_evolution(const Keys& keys) {
    declare_task(keys, "task_a", task_a, "classes of the first task");
    declare_task(keys, "task_b", task_b, "classes of the second task");
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

  void declare_task(const Keys& keys, std::string_view key, std::vector<int>& task, std::string_view text) {
    std::vector<std::int64_t> classes(task.begin(), task.end());
    data.declare_classes(keys, key, classes, {.min_items = 2, .required = true}, text);
    task.assign(classes.begin(), classes.end());
  }

  /// A list of seeds, or their number, counted up from the seed of the session.
  void declare_seeds(const Keys& keys) {
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
};

/// Reads a file and applies overrides, as read_run_config (train/config/config.h) does. Returns nothing if the config
/// is not one of a PathNet run. Throws ConfigError on the first mistake.
std::optional<PathNetConfig> read_pathnet_config(const std::filesystem::path& path,
                                                 const std::vector<std::string>& overrides = {});
/// Does the same for a tree.
std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides = {});

/// The config as YAML, defaults included; reading it gives the same config.
std::string to_yaml(PathNetConfig config);

}  // namespace braid
