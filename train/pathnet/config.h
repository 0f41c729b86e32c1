#pragma once
// What a PathNet run is told: two tasks, a net, and how its paths evolve. A config with a section `evolution` is one.

#include <optional>

#include "models/pathnet.h"
#include "train/config/config.h"
#include "train/pathnet/tournament.h"

namespace braid {

/// What becomes of task A's path in task B, where its modules do not change any more.
enum class FrozenPath {
  selectable,     ///< evolution may take up its modules or not
  always_active,  ///< every path uses its modules too
};

struct PathNetConfig {
  std::string name;                       ///< of the run folders
  std::vector<std::uint64_t> seeds = {};  ///< one run each
  /// Not `streams: auto`: every new path is a new plan, and measuring each would cost more than it gains.
  SessionOptions session = {.streams = 1, .width = 1};
  models::PathNetOptions net;  ///< but for image_shape, which is the dataset's
  DataConfig data;
  std::vector<int> task_a, task_b;  ///< classes of the dataset
  std::int64_t batch_size = 16;
  TournamentOptions tournament;
  int population = 64;
  FrozenPath frozen_path = FrozenPath::selectable;
  double threshold = 0.95;
  int max_generations = 500;
  std::string output_root = "runs";

  void declare(const Keys& keys);
  void declare_net(const Keys& keys);
  void declare_evolution(const Keys& keys);
  void declare_task(const Keys& keys, std::string_view key, std::vector<int>& task, std::string_view text);
  /// A list of seeds, or how many, counted from the seed of the session.
  void declare_seeds(const Keys& keys);
};

/// Reads a file and applies overrides, as read_run_config (train/config/config.h) does. Nothing if the config is none
/// of a PathNet run. Throws ConfigError on the first mistake.
std::optional<PathNetConfig> read_pathnet_config(const std::filesystem::path& path,
                                                 const std::vector<std::string>& overrides = {});
/// The same for a tree.
std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides = {});

/// The config as YAML, defaults included; reading it gives the same config.
std::string to_yaml(PathNetConfig config);

}  // namespace braid
