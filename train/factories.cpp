#include "train/factories.h"

#include "data/fashion_mnist.h"
#include "data/synthetic.h"
#include "models/registry.h"

namespace braid {

std::shared_ptr<const Dataset> make_dataset(const DataConfig& data, std::uint64_t seed, Split split) {
  if (data.name == "fashion_mnist") return fashion_mnist(data.root, split);
  if (data.name == "synthetic") {
    return synthetic({.size = split == Split::train ? data.size : data.test_size,
                      .shape = {data.image_size, data.image_size, data.channels},
                      .classes = data.classes,
                      .seed = seed,
                      .split = split});
  }
  throw ConfigError(message("[data] there is no dataset '", data.name, "'"));
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

LoaderOptions loader_options(const TrainConfig& config, Split split) {
  const DataConfig& data = config.data;
  const bool training = split == Split::train;
  return {.batch_size = training ? config.batch_size : config.eval_batch_size,
          .shuffle = training,
          .drop_last = training && config.drop_last,
          .seed = config.session.seed,
          .workers = data.workers,
          .prefetch = data.prefetch,
          .transform = transform_options(data, split)};
}

TransformOptions transform_options(const DataConfig& data, Split split) {
  TransformOptions options;
  options.mean.assign(data.mean.begin(), data.mean.end());
  options.std.assign(data.std.begin(), data.std.end());
  if (split == Split::train) {
    options.crop_padding = data.augment.crop_padding;
    options.flip = data.augment.flip;
    options.salt_and_pepper = data.augment.salt_and_pepper;
  }
  return options;
}

}  // namespace braid
