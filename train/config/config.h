#pragma once
// What a training run is told: the contents of a config file, checked as a whole before anything is built. A run is one
// job, or several that train together in the same steps.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/registry.h"
#include "runtime/session.h"
#include "train/config/tree.h"
#include "train/schedule.h"

namespace braid {

struct ModelConfig {
  std::string name;              ///< required; see models::model_names()
  models::ModelOptions options;  ///< but for classes and image_shape, which are the dataset's
};

struct AugmentConfig {
  int crop_padding = 0;
  bool flip = false;
  double salt_and_pepper = 0;
};

struct DataConfig {
  std::string name;  ///< required; fashion_mnist or synthetic
  std::string root;  ///< fashion_mnist: folder of the files; empty for the default
  int workers = 1;
  int prefetch = 4;
  std::vector<std::int64_t> only_classes;  ///< relabelled 0, 1, … in this order; empty for all
  AugmentConfig augment;                   ///< of the training images
  std::vector<double> mean, std;           ///< normalisation, one per channel; empty for none
  std::int64_t size = 1024;                ///< synthetic: training images
  std::int64_t test_size = 256;            ///< synthetic: test images
  std::int64_t image_size = 32;            ///< synthetic: height and width
  std::int64_t channels = 3;               ///< synthetic
  int classes = 10;                        ///< synthetic
};

struct OptimizerConfig {
  std::string name = "sgd";  ///< sgd, adam, adamw
  double lr = 0;             ///< 0.1 for sgd and 0.001 for the others, unless given
  double momentum = 0.9;     ///< sgd
  bool nesterov = false;     ///< sgd
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  ///< adam, adamw
};

/// One job: a model and how it is trained. Complete in itself.
struct TrainConfig {
  std::string name;  ///< required; of the run folders
  SessionOptions session;
  DType dtype = DType::f32;  ///< of activations and their gradients: f32, bf16, or f16 with loss scaling
  ModelConfig model;
  DataConfig data;
  std::int64_t epochs = 0;  ///< required
  std::int64_t batch_size = 64;
  bool drop_last = false;
  double label_smoothing = 0;
  std::int64_t log_interval = 50;  ///< steps between records of metrics
  std::int64_t max_steps = 0;      ///< 0: no limit
  std::int64_t eval_batch_size = 256;
  OptimizerConfig optimizer;
  ScheduleOptions schedule;
  std::string output_root = "runs";
};

/// A job among others.
struct JobConfig {
  TrainConfig training;    ///< what would train the job alone, to the same result
  int steps_per_turn = 0;  ///< steps it takes while others take theirs; 0: by measured times
};

struct RunConfig {
  std::string name;
  std::string output_root = "runs";
  std::vector<JobConfig> jobs;
  bool together = false;  ///< the config has a list of jobs, if only of one
};

/// Reads a file and applies overrides "key.path=value". Throws ConfigError (train/config/reader.h) on the first
/// mistake.
RunConfig read_run_config(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
/// The same for a tree (train/config/tree.h).
RunConfig read_run_config(ConfigNode tree, const std::vector<std::string>& overrides = {});
/// The same for a single job.
TrainConfig read_train_config(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
/// The same for a text; `source` is its name in messages.
TrainConfig parse_train_config(std::string_view text, const std::string& source,
                               const std::vector<std::string>& overrides = {});

/// The config as YAML, defaults included; reading it gives the same config.
std::string to_yaml(const TrainConfig& config);
std::string to_yaml(const RunConfig& config);

}  // namespace braid
