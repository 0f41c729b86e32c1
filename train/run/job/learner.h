#pragma once
// A model with its optimizer and random state, which records its training steps. Several learners may record into one
// step; each gives the results it would give alone.

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "train/run/factories.h"
#include "train/weight_average.h"

namespace braid {

class Learner {
 public:
  /// Throws Error if the model does not take images like the dataset's. The session must outlive the learner.
  Learner(const TrainConfig& config, Session& session, const ImageDataset& dataset);

  struct Recorded {
    Tensor loss;  ///< the objective: mean over the batch, with label smoothing and auxiliary classifiers; unscaled
    Tensor top1;  ///< share of images whose label has the largest logit, in [0,1]
  };
  /// The place of a batch among those that make one update together.
  struct Share {
    std::int64_t index = 0, count = 1;
    bool averages = false;  ///< whether ranks that train by themselves average what they have after it
  };
  /// Records forward pass and backward pass on the current step, and after the last batch of an update also the update.
  Recorded record(const Batch& batch, const Share& share = {0, 1, false}) {
    const Layout layout = batch.split ? Layout::split : Layout::replicated;
    const Tensor labels = place(batch.labels, layout);
    const Array targets = class_weights_.empty() ? batch.targets : weighted_targets(batch);
    const Tensor truth = targets.size() == 0 ? labels : place(targets, layout);
    return record(place(batch.images, layout), labels, truth, share);
  }
  Recorded record(const Tensor& images, const Tensor& labels) { return record(images, labels, labels, {0, 1, false}); }

  /// Throws what the forward pass of such a batch would, for instance for its size. Not while a step is recorded.
  void check(const Batch& batch);

  /// Training steps recorded so far.
  std::int64_t steps() const { return random_.step; }
  /// The tensors that training needs in addition to the model's. With them, the model's, and the numbers of steps and
  /// of updates, another learner continues as this one would.
  std::vector<Parameter*> training_states();
  void restore(std::int32_t steps, std::int32_t updates, bool accumulated);
  Module& model() const { return *model_; }
  Optimizer& optimizer() const { return *optimizer_; }
  /// The average of the model's tensors, or their centre on all ranks, to validate and to save; null if the config
  /// wants none.
  WeightAverage* average() const { return average_.get(); }

 private:
  /// The loss compares logits with `truth`, labels or probabilities.
  Recorded record(const Tensor& images, const Tensor& labels, const Tensor& truth, const Share& share);

  /// Smoothed targets, f32 [N,...,classes], multiplied by the weights of their classes.
  Array weighted_targets(const Batch& batch) const;

  Session& session_;
  ClassLoss loss_;
  std::vector<double> class_weights_;  // empty: all 1
  DType dtype_;
  RandomState random_;
  std::unique_ptr<Module> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LossScale> loss_scale_;  // null without loss scaling
  std::unique_ptr<WeightAverage> average_;
  bool accumulates_;
};

}  // namespace braid
