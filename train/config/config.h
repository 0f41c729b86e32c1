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

/// The keys: train/config/data_keys.cpp.
struct AugmentConfig {
  int crop_padding = 0;
  bool flip = false;
  double salt_and_pepper = 0;
  bool random_resized_crop = false;
  std::vector<double> scale = {0.08, 1}, ratio = {0.75, 4.0 / 3};
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  double random_erasing = 0;
  double mixup = 0, cutmix = 0, mixup_prob = 1;

  void declare(const Keys& keys);
};

/// The names of datasets in configs (train/run/factories.cpp).
std::vector<std::string> dataset_names();

struct DataConfig {
  std::string name;
  std::string root, file, val_file, test_file;
  int workers = 1;
  int prefetch = 4;
  int max_bad = 0;
  std::vector<std::int64_t> only_classes;
  bool pairs = false;
  AugmentConfig augment;
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
  /// The greatest value of `classes`.
  double most_classes() const;
  /// A key that lists classes of the dataset.
  void declare_classes(const Keys& keys, std::string_view key, std::vector<std::int64_t>& list, KeyRule rule,
                       std::string_view text) const;
  void declare(const Keys& keys);
};

struct OptimizerConfig {
  std::string name = "sgd";
  double lr = 0;  ///< 0: the optimizer's default
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;

  void declare(const Keys& keys) {
    keys("name", name, {.words = {"sgd", "adam", "adamw"}, .synonyms = {"solver_type"}}, "how weights are updated");
    if (lr == 0) lr = name == "sgd" ? 0.1 : 1e-3;
    keys("lr", lr, {.above = 0, .synonyms = {"learning_rate", "base_lr", "max_lr"}},
         "the rate that the schedule starts from or rises to");
    keys("weight_decay", weight_decay, {.min = 0, .synonyms = {"wd"}},
         "not applied to biases and batch norm; decoupled in `adamw`");
    if (name == "sgd") {
      keys("momentum", momentum, {.min = 0, .below = 1}, "0 for none");
      keys("nesterov", nesterov, {}, "Nesterov's momentum; needs a momentum above 0");
      keys.check("nesterov", !nesterov || momentum > 0, "needs a momentum above 0");
    } else {
      keys("beta1", beta1, {.min = 0, .below = 1, .synonyms = {"betas"}}, "decay of the mean of gradients");
      keys("beta2", beta2, {.min = 0, .below = 1}, "decay of the mean of squared gradients");
      keys("epsilon", epsilon, {.above = 0, .synonyms = {"eps"}},
           "added to the square root of the mean of squared gradients");
    }
  }
};

/// The metric by which validations of a training are compared.
enum class Metric { accuracy, loss };

struct CheckpointConfig {
  std::int64_t every_n_steps = 0;
  int keep_last = 2, keep_best = 1;

  void declare(const Keys& keys) {
    keys("every_n_steps", every_n_steps,
         {.min = 0,
          .max = KeyRule::kMaxCount,
          .synonyms = {"every_n_train_steps", "save_steps", "snapshot", "interval", "recovery_interval"}},
         "saves after this many steps, too, and not only after every epoch; 0: after epochs only");
    keys("keep_last", keep_last,
         {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"save_total_limit", "checkpoint_hist", "max_to_keep"}},
         "newest checkpoints to keep");
    keys("keep_best", keep_best, {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"save_top_k"}},
         "how many checkpoints with the best validation results to keep as well, by `eval.metric`");
  }
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
  double label_smoothing = 0;
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
  void declare_training(const Keys& keys) {
    model.declare(keys.section("model", "the network", {"net", "network"}));
    const Keys of_data = keys.section("data", "the images", {"dataset"});
    data.declare(of_data);
    data.declare_classes(
        of_data, "only_classes", data.only_classes, {},
        "train and validate with these classes only, relabelled 0, 1, … in this order; empty: all classes");
    of_data(
        "pairs", data.pairs, {},
        "shows images in pairs, side by side, whose classes are `different` and `same`: for `model: {name: siamese}`");
    check_task(of_data);
    const Keys train = keys.section("train", "how long to train, and in which batches", {"training"});
    train("epochs", epochs,
          {.min = 1, .max = KeyRule::kMaxCount, .required = true, .synonyms = {"max_epochs", "num_epochs", "n_epochs"}},
          "passes over the training images");
    train("batch_size", batch_size,
          {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"batch", "train_batch_size", "bs"}}, "images in a step");
    train("drop_last", drop_last, {}, "leaves out the last batch of an epoch if it is smaller than the others");
    train("label_smoothing", label_smoothing, {.min = 0, .below = 1, .synonyms = {"smoothing"}},
          "share of a label's weight that is spread evenly over all classes");
    train("log_interval", log_interval,
          {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"display", "log_every", "log_freq", "print_freq"}},
          "steps between records of metrics");
    train("max_steps", max_steps,
          {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"max_iter", "max_iters", "iterations", "num_steps"}},
          "ends the run after this many steps, which the learning-rate schedule then spans; 0: no limit");
    train("accumulate", accumulate,
          {.min = 1,
           .max = KeyRule::kMaxCount,
           .synonyms = {"accumulate_grad_batches", "gradient_accumulation_steps", "iter_size", "grad_accum_steps"}},
          "steps whose gradients are averaged into one update, within an epoch");
    train("clip_norm", clip_norm,
          {.min = 0, .synonyms = {"clip_grad", "clip_gradients", "gradient_clip_val", "max_norm", "max_grad_norm"}},
          "largest norm of all gradients together; larger ones are scaled down to it; 0: no limit");
    train("ema_decay", ema_decay, {.min = 0, .below = 1, .synonyms = {"model_ema_decay", "ema", "model_ema"}},
          "decay of a moving average of the weights, which is then what is validated and saved; 0: none");
    train("early_stop", early_stop,
          {.min = 0, .max = KeyRule::kMaxCount, .synonyms = {"early_stopping", "early_stopping_patience", "patience"}},
          "ends the run after this many validations in a row that were not the best so far; 0: never");
    const Keys eval = keys.section("eval", "how to validate", {"val", "validation", "evaluation", "test"});
    eval("batch_size", eval_batch_size,
         {.min = 1,
          .max = KeyRule::kMaxCount,
          .synonyms = {"val_batch_size", "test_batch_size", "eval_batch_size", "validation_batch_size"}},
         "images in an evaluation step");
    eval(
        "every_n_epochs", eval_every_n_epochs,
        {.min = 1, .max = KeyRule::kMaxCount, .synonyms = {"check_val_every_n_epoch", "val_interval", "test_interval"}},
        "epochs between validations; the last epoch is always followed by one");
    eval("metric", metric, {.words = {"accuracy", "loss"}, .synonyms = {"eval_metric", "monitor"}},
         "how validations are ranked: by the highest accuracy or by the lowest loss");
    optimizer.declare(keys.section("optimizer", "how weights are updated", {"opt", "optim", "solver"}));
    schedule.declare(keys.section("schedule", "how the learning rate changes",
                                  {"scheduler", "lr_scheduler", "lr_schedule", "sched"}));
    checkpoint.declare(
        keys.section("checkpoint", "what to save, so that `braid train --resume` can go on", {"checkpoints", "save"}));
  }
};

/// A job of a list.
struct JobConfig {
  TrainConfig training;    ///< trains the job alone, with the same result
  int steps_per_turn = 0;  ///< 0: chosen by measured times

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
