#pragma once
// The settings of a PathNet run, from a config with a section `evolution`: two tasks, a net, and how its paths evolve.

#include <optional>

#include "models/zoo/wired/pathnet.h"
#include "train/config/config.h"

namespace braid {

enum class Tournament {
  concurrent,  ///< all candidates in one step, each with its own batch; one update from all gradients
  sequential,  ///< the paper's order: a candidate begins once the previous one has finished
};

struct TournamentOptions {
  Tournament order = Tournament::concurrent;
  int candidates = 2;
  int batches = 50;  ///< that each candidate is trained on
  double lr = 0.05;
  DType dtype = DType::f32;  ///< in which the nets compute: f32, f16 or bf16
};

/// How task B uses task A's path, whose modules are frozen.
enum class FrozenPath {
  selectable,     ///< evolution may select its modules
  always_active,  ///< every path also uses its modules
};

struct PathNetConfig {
  std::string name;                       ///< name of the run folders
  std::vector<std::uint64_t> seeds = {};  ///< one for each run
  /// Not `streams: auto`: every new path is a new plan, and measuring each would cost more than it gains.
  SessionOptions session = {.streams = 1, .intra_op_threads = 1};
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

  void declare(const Keys& keys);

 private:
  void declare_net(const Keys& keys);
  void declare_evolution(const Keys& keys);
  /// A list of seeds, or their number, counted up from the seed of the session.
  void declare_seeds(const Keys& keys);
};

/// Applies overrides to a tree and reads it, as read_run_config (train/config/config.h) does. Returns nothing if the
/// config is not one of a PathNet run. Throws ConfigError on the first mistake.
std::optional<PathNetConfig> read_pathnet_config(ConfigNode tree, const std::vector<std::string>& overrides = {});

/// The config as YAML, defaults included; reading it gives the same config.
std::string to_yaml(PathNetConfig config);

}  // namespace braid
