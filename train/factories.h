#pragma once
// From the words of a config to objects.

#include <memory>

#include "data/loader.h"
#include "models/module.h"
#include "runtime/session.h"
#include "train/config.h"
#include "train/optimizer.h"

namespace braid {

/// Throws DataError if the files are missing or damaged.
std::shared_ptr<const Dataset> make_dataset(const DataConfig& data, std::uint64_t seed, Split split);
inline std::shared_ptr<const Dataset> make_dataset(const TrainConfig& config, Split split) {
  return make_dataset(config.data, config.session.seed, split);
}
/// Throws Error if the model does not take images like the dataset's.
std::unique_ptr<Module> make_model(const ModelConfig& config, Context& context, const Dataset& dataset);
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Parameter*> parameters);
/// For training: shuffled and augmented; for testing: in order, as they are, the last batch included.
LoaderOptions loader_options(const TrainConfig& config, Split split);
/// Normalised; augmented if for training.
TransformOptions transform_options(const DataConfig& data, Split split);

}  // namespace braid
