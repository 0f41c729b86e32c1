#pragma once
// Makes the objects that a config describes.

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/loader/loader.h"
#include "models/layers/module.h"
#include "runtime/session.h"
#include "train/config/config.h"
#include "train/loss_scale.h"
#include "train/optimizer.h"

namespace braid {

/// A one-line description of the dataset. Throws ConfigError if there is no such dataset.
std::string_view dataset_description(std::string_view name);

/// Starts the communicator of the ranks that a launcher has started; a program launched alone needs none. Throws
/// Error if the mesh asks for another number of ranks, CommunicationError as make_communicator().
void join_ranks(RunConfig& config);
/// The session's options of the config, with the rank's own GPU; ranks that share the cores of a host divide them
/// evenly, unless `threads` is set.
SessionOptions session_options(const TrainConfig& config);

/// The same options for steps that are recorded and do not run.
SessionOptions recording_options(SessionOptions options);

/// Makes each dataset once and shares it between all users of it or of some of its classes.
class DatasetPool {
 public:
  /// Throws DataError if the files are missing or damaged.
  std::shared_ptr<const ImageDataset> get(const TrainConfig& config, Split split);
  /// Adds a dataset for all configs that ask for the same data.
  void put(const TrainConfig& config, Split split, std::shared_ptr<const ImageDataset> dataset);

 private:
  std::map<std::string, std::shared_ptr<const ImageDataset>> datasets_;
};

/// Throws Error if the model does not take images like the dataset's.
std::unique_ptr<Module> make_model(const ModelConfig& config, Context& context, const ImageDataset& dataset);
/// Throws Error if the model does not take images of this shape, [H,W,C].
std::unique_ptr<Module> make_model(const ModelConfig& config, Context& context, std::int64_t classes,
                                   const Shape& image);
/// The parameters whose names match a pattern as in a shell. Throws ConfigError in the name of the key if there are
/// none.
std::vector<Parameter*> matching(std::string_view key, const std::string& pattern,
                                 std::span<Parameter* const> parameters);
/// Throws ConfigError if a group's pattern matches none of the parameters that are in no group before.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, std::vector<Parameter*> parameters);
/// The loss scale for f16, in which small gradients underflow; null for the other types.
std::unique_ptr<LossScale> make_loss_scale(DType dtype, Context& context);
/// Replaces data.normalize.compute by the mean and deviation of the training images. Throws DataError as get().
void compute_normalization(TrainConfig& config, DatasetPool& datasets);
/// The options of a loader. Training: shuffled and augmented. Otherwise: in order, unchanged, including the last batch.
LoaderOptions loader_options(const TrainConfig& config, Split split);
/// The same for training on a dataset, with the sampler of the config.
LoaderOptions training_options(const TrainConfig& config, const ImageDataset& dataset);
/// Factors of the loss by class, with a mean of 1 over the images if they are balanced; empty: all 1. Throws
/// ConfigError if the config lists another number of them.
std::vector<double> class_weights(const TrainConfig& config, const ImageDataset& dataset);

}  // namespace braid
