#pragma once
// A model with its optimizer and random state, which records its training steps. Several learners may record into one
// step; each gives the results it would give alone.

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "train/run/factories.h"

namespace braid {

class Learner {
 public:
  /// Throws Error if the model does not take images like the dataset's. The session must outlive the learner.
  Learner(const TrainConfig& config, Session& session, const Dataset& dataset);

  struct Recorded {
    Tensor loss;  ///< the objective: mean over the batch, with label smoothing and auxiliary classifiers; unscaled
    Tensor top1;  ///< share of images whose label has the largest logit, in [0,1]
  };
  /// Records forward pass, backward pass and update on the current step.
  Recorded record(const Batch& batch) {
    return batch.targets.size() == 0 ? record(batch.images, batch.labels)
                                     : record(batch.images, batch.labels, batch.targets);
  }
  Recorded record(const Tensor& images, const Tensor& labels) { return record(images, labels, labels); }
  /// The loss compares logits with `truth`, labels or probabilities.
  Recorded record(const Tensor& images, const Tensor& labels, const Tensor& truth);

  /// Training steps recorded so far.
  std::int64_t steps() const { return random_.step; }
  /// The tensors that training needs beside the model's. With them, the model's, and the numbers of steps and of
  /// updates, another learner continues as this one would.
  std::vector<Parameter*> training_states();
  void restore(std::int32_t steps, std::int32_t updates);
  Module& model() const { return *model_; }
  Optimizer& optimizer() const { return *optimizer_; }

 private:
  Session& session_;
  double label_smoothing_;
  DType dtype_;
  RandomState random_;
  std::unique_ptr<Module> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LossScale> loss_scale_;  // null without loss scaling
};

}  // namespace braid
