#include "train/run/factories.h"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "core/comm/rank_device.h"
#include "core/text/text.h"
#include "data/class_subset.h"
#include "data/formats/cifar.h"
#include "data/formats/fashion_mnist.h"
#include "data/formats/image_files.h"
#include "data/formats/real_images.h"
#include "data/formats/scan.h"
#include "data/pairs.h"
#include "data/shapes.h"
#include "data/synthetic.h"
#include "models/registry.h"

namespace braid {

namespace {

/// Identifies a dataset with all its classes.
std::string key_of(const TrainConfig& config, Split split) {
  const DataConfig& data = config.data;
  const std::string_view part = to_string(split);
  if (data.has_files()) {
    std::string background;
    for (const double level : data.background) background += message(level, ' ');
    return message(data.name, ' ', part, ' ', background, data.image_size, ' ', data.channels, ' ', data.classes, ' ',
                   data.val_share, ' ', data.test_share, ' ', data.split_seed, ' ', data.root, '\n', data.file, '\n',
                   data.val_file, '\n', data.test_file);
  }
  if (!data.is_synthetic()) return message(data.name, ' ', part, ' ', data.root);
  return message(data.name, ' ', part, ' ', split == Split::train ? data.size : data.val_size, ' ', data.image_size,
                 ' ', data.channels, ' ', data.classes, ' ', config.session.seed);
}

ImageFilesOptions files_options(const DataConfig& data) {
  return {.image_shape = {data.image_size, data.image_size, data.channels},
          .background = data.background,
          .val_share = data.val_share,
          .test_share = data.test_share,
          .split_seed = data.split_seed};
}

/// The options of synthetic datasets.
template <class Options>
Options synthetic_options(const TrainConfig& config, Split split) {
  const DataConfig& data = config.data;
  return {.size = split == Split::train ? data.size : data.val_size,
          .shape = {data.image_size, data.image_size, data.channels},
          .classes = data.classes,
          .seed = config.session.seed,
          .split = split};
}

struct NamedDataset {
  std::string_view name;
  std::string_view description;
  std::shared_ptr<const ImageDataset> (*make)(const TrainConfig& config, Split split);
};

constexpr NamedDataset kDatasets[] = {
    {"fashion_mnist", "60,000 images of clothes, 28x28x1, 10 classes",
     [](const TrainConfig& config, Split split) { return fashion_mnist(config.data.root, split); }},
    {"mnist", "60,000 handwritten digits, 28x28x1, in the same files",
     [](const TrainConfig& config, Split split) { return mnist(config.data.root, split); }},
    {"cifar10", "50,000 photos, 32x32x3, 10 classes; the binary files",
     [](const TrainConfig& config, Split split) { return cifar10(config.data.root, split); }},
    {"cifar100", "50,000 photos, 32x32x3, 100 classes; the binary files",
     [](const TrainConfig& config, Split split) { return cifar100(config.data.root, split); }},
    {"image_folder", "your PNG and JPEG files, in a folder for each class",
     [](const TrainConfig& config, Split split) {
       return image_folder(config.data.root, split, files_options(config.data));
     }},
    {"csv", "your PNG and JPEG files, listed with their labels",
     [](const TrainConfig& config, Split split) {
       const DataConfig& data = config.data;
       return image_list(data.file, data.val_file, data.test_file, data.root, split, files_options(data));
     }},
    {"image_masks", "your PNG and JPEG files, and masks with a class for each pixel",
     [](const TrainConfig& config, Split split) {
       return image_masks(config.data.root, split, config.data.classes, files_options(config.data));
     }},
    {"shapes", "made-up images of shapes, with masks; needs no files",
     [](const TrainConfig& config, Split split) { return shapes(synthetic_options<ShapesOptions>(config, split)); }},
    {"synthetic", "a pattern for each class plus noise, of any size; needs no files",
     [](const TrainConfig& config, Split split) {
       return synthetic(synthetic_options<SyntheticOptions>(config, split));
     }},
};

/// Throws DataError for a relative path that does not exist; the message says what it is relative to.
void check_paths(const DataConfig& data) {
  for (const std::filesystem::path path : {data.root, data.file, data.val_file, data.test_file}) {
    std::error_code none;
    BRAID_CHECK(path.empty() || path.is_absolute() || std::filesystem::exists(path, none), DataError, path.string(),
                ": there is no such file or folder in ", std::filesystem::current_path(none).string(),
                ", where relative paths of a config begin");
  }
}

const NamedDataset& find_dataset(std::string_view name) {
  const auto* found = std::ranges::find(kDatasets, name, &NamedDataset::name);
  BRAID_CHECK(found != std::end(kDatasets), ConfigError, "[data] there is no dataset '", name, "'; there are ",
              comma_list(dataset_names()));
  return *found;
}

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  for (const NamedDataset& dataset : kDatasets) names.emplace_back(dataset.name);
  return names;
}

std::string_view dataset_description(std::string_view name) { return find_dataset(name).description; }

std::shared_ptr<const ImageDataset> DatasetPool::get(const TrainConfig& config, Split split) {
  BRAID_CHECK(split != Split::test || config.data.has_files() || config.data.is_synthetic(), ConfigError, "[data] ",
              config.data.name, " has no separate test set: training validates with its test images (--split val)");
  std::shared_ptr<const ImageDataset>& dataset = datasets_[key_of(config, split)];
  if (dataset == nullptr) {
    check_paths(config.data);
    dataset = find_dataset(config.data.name).make(config, split);
  }
  std::shared_ptr<const ImageDataset> part = dataset;
  if (!config.data.only_classes.empty()) {
    part = std::make_shared<ClassSubset>(std::move(part), config.data.only_classes);
  }
  if (config.data.pairs) part = std::make_shared<Pairs>(std::move(part));
  const bool generates = config.model.task() == models::Task::generation;
  return generates ? std::make_shared<RealImages>(std::move(part)) : part;
}

void DatasetPool::put(const TrainConfig& config, Split split, std::shared_ptr<const ImageDataset> dataset) {
  datasets_[key_of(config, split)] = std::move(dataset);
}

std::unique_ptr<Module> make_model(const ModelConfig& config, Context& context, const ImageDataset& dataset) {
  return make_model(config, context, dataset.classes(), dataset.image_shape());
}

std::unique_ptr<Module> make_model(const ModelConfig& config, Context& context, std::int64_t classes,
                                   const Shape& image) {
  if (!config.layers.empty()) return std::make_unique<models::LayerList>(context, config.layers, image, classes);
  models::ModelOptions options = config.options;
  options.classes = classes;
  options.image_shape = image;
  return models::make_model(config.name, context, options);
}

std::vector<Parameter*> matching(std::string_view key, const std::string& pattern,
                                 std::span<Parameter* const> parameters) {
  std::vector<Parameter*> found;
  std::vector<std::string> names;
  for (Parameter* parameter : parameters) {
    names.push_back(parameter->name());
    if (fnmatch(pattern.c_str(), parameter->name().c_str(), 0) == 0) found.push_back(parameter);
  }
  BRAID_CHECK(!found.empty(), ConfigError, key, ": no parameter's name matches '", pattern, "'; the names are ",
              comma_list(names));
  return found;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Parameter*> parameters) {
  std::vector<ParameterGroup> groups;
  for (const auto& [patterns, lr, weight_decay] : config.groups) {
    ParameterGroup& group = groups.emplace_back();
    if (lr > 0) group.lr = lr;
    if (weight_decay >= 0) group.weight_decay = weight_decay;
    for (const std::string& pattern : patterns) {
      for (Parameter* parameter : matching("[optimizer] groups", pattern, parameters)) {
        group.parameters.push_back(parameter);
        std::erase(parameters, parameter);
      }
    }
  }
  groups.push_back({std::move(parameters)});
  if (config.name == "sgd") {
    return std::make_unique<SGD>(std::move(groups), SGD::Options{.lr = config.lr,
                                                                 .momentum = config.momentum,
                                                                 .weight_decay = config.weight_decay,
                                                                 .nesterov = config.nesterov});
  }
  const Adam::Options options{.lr = config.lr,
                              .beta1 = config.beta1,
                              .beta2 = config.beta2,
                              .epsilon = config.epsilon,
                              .weight_decay = config.weight_decay,
                              .decoupled = config.name == "adamw"};
  BRAID_CHECK(config.name == "adam" || config.name == "adamw", ConfigError, "[optimizer] there is no optimizer '",
              config.name, "'");
  return std::make_unique<Adam>(std::move(groups), options);
}

std::unique_ptr<LossScale> make_loss_scale(DType dtype, Context& context) {
  return dtype == DType::f16 ? std::make_unique<LossScale>(context) : nullptr;
}

void join_ranks(RunConfig& config) {
  const Launch launch = launch_from_environment();
  const SessionOptions& session = config.jobs.front().training.session;
  std::shared_ptr<Communicator> communicator;
  if (launch.size > 1)
    communicator = make_communicator(launch, rank_device(session.device, launch), session.parallel.timeout);
  for (JobConfig& job : config.jobs) {
    job.training.session.parallel.communicator = communicator;
    ParallelOptions known = job.training.session.parallel;
    if (known.strategy != "data")
      known.virtual_ranks = 0;  // whether they fit the ranks depends on what the strategy will be
    check_parallel(known);
  }
}

SessionOptions session_options(const TrainConfig& config) {
  SessionOptions options = config.session;
  if (options.parallel.ranks() == 1) return options;
  const Launch launch = launch_from_environment();
  options.device = message(rank_device(options.device, launch));
  if (options.threads > 0) return options;
  // A launcher that binds every rank to its own cores leaves fewer than the host has.
  const int cores = make_backend(Device{})->info().capacity;
  if (cores == sysconf(_SC_NPROCESSORS_ONLN)) options.threads = std::max(1, cores / launch.local_size);
  return options;
}

SessionOptions recording_options(SessionOptions options) {
  options.device = "cpu";
  options.draw_weights = false;
  options.partition.clear();
  options.profile.clear();  // they belong to the device that steps are planned for
  return options;
}

LoaderOptions loader_options(const TrainConfig& config, Split split) {
  const DataConfig& data = config.data;
  const bool training = split == Split::train;
  const int shards = config.session.parallel.shard_count();
  // An evaluation has the same results with any batch size.
  const std::int64_t eval_batch =
      std::max<std::int64_t>(shards, config.eval_batch_size - config.eval_batch_size % shards);
  LoaderOptions options{.batch_size = training ? config.batch_size : eval_batch,
                        .shuffle = training,
                        .drop_last = training && config.drop_last,
                        .rank = data_rank(config.session.parallel),
                        .ranks = config.session.parallel.data_ranks(),
                        .shards = shards,
                        .seed = config.session.seed,
                        .workers = data.workers,
                        .prefetch = data.prefetch,
                        .max_bad = data.max_bad,
                        .replace_bad = training || shards > 1};
  if (training) {
    options.transform = data.augment;
    options.mixing = data.mixing;
  }
  options.transform.mean.assign(data.mean.begin(), data.mean.end());
  options.transform.std.assign(data.std.begin(), data.std.end());
  if (data.has_files() && !data.has_masks() && !data.pairs) options.transform.crop_pct = data.crop_pct;
  return options;
}

LoaderOptions training_options(const TrainConfig& config, const ImageDataset& dataset) {
  LoaderOptions options = loader_options(config, Split::train);
  if (config.data.balances_classes) {
    options.shuffle = false;
    options.sampler = std::make_shared<BalancedSampler>(dataset.labels());
  }
  return options;
}

std::vector<double> class_weights(const TrainConfig& config, const ImageDataset& dataset) {
  const auto classes = static_cast<std::size_t>(dataset.classes());
  BRAID_CHECK(config.class_weights.empty() || config.class_weights.size() == classes, ConfigError,
              "[train] class_weights: expected one per class (", classes, "), got ", config.class_weights.size());
  if (!config.balances_classes) return config.class_weights;
  std::vector<double> images(classes);
  for (const int label : dataset.labels()) images[static_cast<std::size_t>(label)] += 1;
  const double mean = static_cast<double>(dataset.size()) / static_cast<double>(classes);
  for (double& count : images) count = mean / std::max(count, 1.0);
  return images;
}

void compute_normalization(TrainConfig& config, DatasetPool& datasets) {
  DataConfig& data = config.data;
  if (!data.compute_normalization) return;
  constexpr std::int64_t kMostImages = 10000;
  const auto dataset = datasets.get(config, Split::train);
  const DatasetScan scan =
      scan_dataset(*dataset, loader_options(config, Split::val).transform, data.workers, kMostImages);
  data.mean = scan.mean();
  data.std = scan.deviation();
  for (double& deviation : data.std) {
    if (deviation == 0) deviation = 1;  // a plain channel
  }
  data.compute_normalization = false;
}

}  // namespace braid
