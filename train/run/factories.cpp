#include "train/run/factories.h"

#include <algorithm>

#include "core/suggestion.h"
#include "data/class_subset.h"
#include "data/fashion_mnist.h"
#include "data/synthetic.h"
#include "models/registry.h"

namespace braid {

namespace {

/// Identifies a dataset with all its classes.
std::string key_of(const TrainConfig& config, Split split) {
  const DataConfig& data = config.data;
  const char* part = split == Split::train ? "train" : "test";
  if (data.name != "synthetic") return message(data.name, ' ', part, ' ', data.root);
  return message(data.name, ' ', part, ' ', split == Split::train ? data.size : data.test_size, ' ', data.image_size,
                 ' ', data.channels, ' ', data.classes, ' ', config.session.seed);
}

struct NamedDataset {
  std::string_view name;
  std::string_view description;
  std::shared_ptr<const Dataset> (*make)(const TrainConfig& config, Split split);
};

constexpr NamedDataset kDatasets[] = {
    {"fashion_mnist", "60,000 images of clothes, 28x28x1, 10 classes; also reads MNIST",
     [](const TrainConfig& config, Split split) { return fashion_mnist(config.data.root, split); }},
    {"synthetic", "a pattern for each class plus noise, of any size; needs no files",
     [](const TrainConfig& config, Split split) {
       const DataConfig& data = config.data;
       return synthetic({.size = split == Split::train ? data.size : data.test_size,
                         .shape = {data.image_size, data.image_size, data.channels},
                         .classes = data.classes,
                         .seed = config.session.seed,
                         .split = split});
     }},
};

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

std::shared_ptr<const Dataset> DatasetPool::get(const TrainConfig& config, Split split) {
  std::shared_ptr<const Dataset>& dataset = datasets_[key_of(config, split)];
  if (dataset == nullptr) dataset = find_dataset(config.data.name).make(config, split);
  const std::vector<std::int64_t>& classes = config.data.only_classes;
  if (classes.empty()) return dataset;
  return std::make_shared<ClassSubset>(dataset, std::vector<int>(classes.begin(), classes.end()));
}

std::unique_ptr<Module> make_model(const ModelConfig& config, Context& context, const Dataset& dataset) {
  models::ModelOptions options = config.options;
  options.classes = dataset.classes();
  options.image_shape = dataset.image_shape();
  return models::make_model(config.name, context, options);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Parameter*> parameters) {
  if (config.name == "sgd") {
    return std::make_unique<SGD>(std::move(parameters), SGD::Options{.lr = config.lr,
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
  return std::make_unique<Adam>(std::move(parameters), options);
}

std::unique_ptr<LossScale> make_loss_scale(DType dtype, Context& context) {
  return dtype == DType::f16 ? std::make_unique<LossScale>(context) : nullptr;
}

LoaderOptions loader_options(const TrainConfig& config, Split split) {
  const DataConfig& data = config.data;
  const bool training = split == Split::train;
  LoaderOptions options{.batch_size = training ? config.batch_size : config.eval_batch_size,
                        .shuffle = training,
                        .drop_last = training && config.drop_last,
                        .seed = config.session.seed,
                        .workers = data.workers,
                        .prefetch = data.prefetch};
  options.transform.mean.assign(data.mean.begin(), data.mean.end());
  options.transform.std.assign(data.std.begin(), data.std.end());
  if (training) {
    options.transform.crop_padding = data.augment.crop_padding;
    options.transform.flip = data.augment.flip;
    options.transform.salt_and_pepper = data.augment.salt_and_pepper;
  }
  return options;
}

}  // namespace braid
