#pragma once
// The checkpoints of a training: files step-<n>.safetensors in a folder. A separate thread writes them, so that
// training waits only for the copies of its tensors.

#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "train/checkpoint/safetensors.h"

namespace braid {

/// What a training needs to continue as if it had never stopped.
struct Checkpoint {
  std::int64_t step = 0;
  std::vector<NamedArray> tensors;
  std::map<std::string, std::string> metadata;
};

/// Use it from one thread at a time.
class CheckpointFolder {
 public:
  struct Retention {
    int last = 2;  ///< newest checkpoints to keep, at least 1
    int best = 1;  ///< checkpoints with the best scores to keep in addition
  };

  /// Makes the folder. Throws Error if that cannot be done.
  CheckpointFolder(std::filesystem::path folder, const Retention& retention);
  /// Waits until the last checkpoint is written.
  ~CheckpointFolder() = default;

  /// Begins to write a checkpoint, and before it the model, if there is one, in another file: a training that continues
  /// from the checkpoint after its last step does not write the model again. Then removes checkpoints that need not be
  /// kept, and damaged ones of later steps. Waits first until the previous one is written, and throws Error if that
  /// failed.
  void save(Checkpoint checkpoint, std::filesystem::path model_path = {}, Checkpoint model = {});
  /// Gives the model that was saved last a second name, which later models do not replace. Waits until it is written.
  /// Throws Error if that failed, or if this fails.
  void keep_model(const std::filesystem::path& model_path, const std::filesystem::path& name);
  /// Whether save() would have to wait.
  bool busy() const;
  /// Waits until the last checkpoint is written. Throws Error if that failed.
  void finish();

  /// Sets the score of the checkpoint of a step; the larger the better. The best checkpoints are kept.
  void rate(std::int64_t step, double score) { scores_[step] = score; }
  const std::map<std::int64_t, double>& scores() const { return scores_; }

  static std::filesystem::path path_of(const std::filesystem::path& folder, std::int64_t step);
  /// The checkpoints in a folder by their steps, the newest first; none if there is no such folder.
  static std::vector<std::int64_t> steps_in(const std::filesystem::path& folder);

  /// Calls `restore` with the newest checkpoint of at most `most_steps` steps, and with older ones until it throws no
  /// DataError; `warn` gets a sentence about those. Returns the step, or nothing if there is no checkpoint. Throws
  /// DataError if none can be used.
  static std::optional<std::int64_t> restore_newest(const std::filesystem::path& folder, std::int64_t most_steps,
                                                    const std::function<void(SafeTensors&&)>& restore,
                                                    const std::function<void(const std::string&)>& warn);

 private:
  std::filesystem::path folder_;
  Retention retention_;
  std::map<std::int64_t, double> scores_;  // by step
  std::future<void> written_;
  std::jthread writer_;
};

}  // namespace braid
