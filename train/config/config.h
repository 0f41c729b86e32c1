#pragma once
// The settings of a training run: the contents of a config file, checked as a whole before anything is built. A run is
// one job, or several that train together in the same steps. Every struct declares the keys that it holds.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "data/shapes.h"
#include "data/synthetic.h"
#include "data/transforms/mixing.h"
#include "data/transforms/transform.h"
#include "models/layers/layer_list.h"
#include "models/registry.h"
#include "runtime/session.h"
#include "train/config/keys.h"
#include "train/schedule.h"

namespace braid {

struct ModelConfig {
  std::string name;                       ///< see models::model_names(); empty if there are layers
  std::vector<models::LayerSpec> layers;  ///< layers of a custom network
  models::ModelOptions options;           ///< except classes and image_shape, which come from the dataset
  std::vector<std::string> freeze;
  std::string weights;  ///< file to start from; empty for random weights

  /// The name of the network in messages and reports.
  std::string title() const { return layers.empty() ? name : "own network"; }
  /// What the network learns; one described by layers classifies images.
  models::Task task() const { return name.empty() ? models::Task::classification : models::model_task(name); }
  /// The keys: train/config/model_keys.cpp.
  void declare(const Keys& keys);
};

/// The names of datasets in configs (train/run/factories.cpp).
std::vector<std::string> dataset_names();

/// The keys: train/config/data_keys.cpp.
struct DataConfig {
  std::string name;
  std::string root, file, val_file, test_file;
  int workers = 1;
  int prefetch = 4;
  int max_bad = 0;
  std::vector<int> only_classes;
  bool balances_classes = false;  ///< epochs draw images of all classes equally often
  bool pairs = false;
  TransformOptions augment;  ///< random changes of training images
  MixingOptions mixing;      ///< likewise
  std::vector<double> mean, std, background;
  bool compute_normalization = false;
  std::int64_t size = 1024, val_size = 256, image_size = 0, channels = 3;  ///< image_size 0: the dataset's default
  int classes = 10;
  double crop_pct = 0.875, val_share = 0.2, test_share = 0;
  std::uint64_t split_seed = 0;

  /// Whether images are PNG and JPEG files.
  bool has_files() const { return name == "image_folder" || name == "csv" || name == "image_masks"; }
  /// Whether images are synthetic, in any number and size.
  bool is_synthetic() const { return name == "synthetic" || name == "shapes"; }
  /// Whether each pixel has a label.
  bool has_masks() const { return name == "image_masks" || name == "shapes"; }
  /// A key that lists classes of the dataset.
  void declare_classes(const Keys& keys, std::string_view key, std::vector<int>& list, KeyRule rule,
                       std::string_view text) const;
  void declare(const Keys& keys);
};

/// The keys of this and of what follows: train/config/training_keys.cpp.
struct OptimizerConfig {
  std::string name = "sgd";
  double lr = 0;  ///< 0: the optimizer's default
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  struct Group {
    std::vector<std::string> parameters;  ///< patterns of names
    double lr = 0, weight_decay = -1;     ///< the optimizer's if 0, or negative
  };
  std::vector<Group> groups = {};

  void declare(const Keys& keys);
};

/// The metric by which validations of a training are compared.
enum class Metric { accuracy, loss };

struct CheckpointConfig {
  std::int64_t every_n_steps = 0;
  int keep_last = 2, keep_best = 1;

  void declare(const Keys& keys);
};

/// One job: a model and its training. Complete in itself.
struct TrainConfig {
  std::string name;  ///< name of the run folders
  SessionOptions session;
  DType dtype = DType::f32;  ///< type of activations and their gradients: f32, bf16, or f16 with loss scaling
  ModelConfig model;
  DataConfig data;
  std::int64_t epochs = 0;
  std::int64_t batch_size = 64;
  bool drop_last = false;
  ClassLoss loss;
  bool balances_classes = false;      ///< the loss of an image is weighted with the rarity of its class
  std::vector<double> class_weights;  ///< or with these, one per class
  std::int64_t log_interval = 50;
  std::int64_t max_steps = 0;
  std::int64_t accumulate = 1;
  double clip_norm = 0;
  double ema_decay = 0;  ///< decay of the average of the weights; 0: none
  std::int64_t early_stop = 0;
  std::int64_t eval_batch_size = 256;
  std::int64_t eval_every_n_epochs = 1;
  Metric metric = Metric::accuracy;
  OptimizerConfig optimizer;
  ScheduleOptions schedule;
  CheckpointConfig checkpoint;
  std::string output_root = "runs";

  /// The data must have the labels that the model learns.
  void check_task(const Keys& of_data) const;
  /// The keys of a config with a single job.
  void declare(const Keys& keys);
  /// The sections that each job of a list may have.
  void declare_training(const Keys& keys);
  void declare_class_weights(const Keys& train);
};

/// A job of a list.
struct JobConfig {
  TrainConfig training;     ///< trains the job alone, with the same result
  int steps_per_round = 0;  ///< 0: chosen by measured times

  void declare(const Keys& keys, const SessionOptions& session);
};

struct RunConfig {
  std::string name;
  std::string output_root = "runs";
  std::vector<JobConfig> jobs;
  bool together = false;  ///< the config has a list of jobs, even if it holds only one

  /// The keys of a config with a list of jobs.
  void declare(const Keys& keys);
};

/// Declares the key "name", which becomes part of a path.
void declare_name(const Keys& keys, std::string& name);
void declare_seed(const Keys& keys, std::uint64_t& seed);
/// Declares the keys about the device and its use.
void declare_session(const Keys& keys, SessionOptions& session);
/// Declares the key "precision", which sets the models' dtype and whether the session computes f32 as tf32.
void declare_precision(const Keys& keys, SessionOptions& session, DType& dtype);
void declare_output(const Keys& keys, std::string& root);
/// The precision that a model computes in on a device: f32, tf32, bf16 or f16.
std::string_view precision_in_use(const TrainConfig& config, const DeviceInfo& device);

/// Reads a file and applies overrides "key.path=value". Throws ConfigError "file:line:column: key.path: problem" on the
/// first mistake.
RunConfig read_run_config(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
/// Does the same for a tree (train/config/tree.h).
RunConfig read_run_config(ConfigNode tree, const std::vector<std::string>& overrides = {});

/// The config as YAML, defaults included; reading it gives the same config.
std::string to_yaml(TrainConfig config);
std::string to_yaml(RunConfig config);

}  // namespace braid
