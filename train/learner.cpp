#include "train/learner.h"

namespace braid {

Learner::Learner(const TrainConfig& config, Session& session, const Dataset& dataset)
    : session_(session), label_smoothing_(config.label_smoothing), random_{config.session.seed} {
  const Context::RandomScope scope(session_, random_);
  model_ = make_model(config.model, session_, dataset);
  optimizer_ = make_optimizer(config.optimizer, model_->parameters());
}

Learner::Recorded Learner::record(const Batch& batch) {
  const Context::RandomScope scope(session_, random_);
  const Tensor labels = batch.labels;
  const std::vector<Head> heads = model_->heads(batch.images);
  const Recorded recorded{training_loss(heads, labels, label_smoothing_), accuracy(heads.front().logits, labels)};
  backward(recorded.loss);
  optimizer_->step();
  ++random_.step;
  return recorded;
}

}  // namespace braid
