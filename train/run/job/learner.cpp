#include "train/run/job/learner.h"

#include "models/layers/layers.h"

namespace braid {

namespace {

/// Freezes the parameters whose names match a pattern, and the statistics of batch norms whose scale is among them.
void freeze(Module& model, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    for (Parameter* parameter : matching("[model] freeze", pattern, model.parameters())) parameter->trainable = false;
  }
  keep_frozen_statistics(model);
}

}  // namespace

Learner::Learner(const TrainConfig& config, Session& session, const ImageDataset& dataset)
    : session_(session),
      loss_(config.loss),
      class_weights_(class_weights(config, dataset)),
      dtype_(config.dtype),
      random_{config.session.seed},
      accumulates_(config.accumulate > 1) {
  const Context::RandomScope scope(session_, random_);
  model_ = make_model(config.model, session_, dataset);
  freeze(*model_, config.model.freeze);
  std::vector<Parameter*> trained = model_->parameters();
  std::erase_if(trained, [](const Parameter* parameter) { return !parameter->trainable; });
  BRAID_CHECK(!trained.empty(), ConfigError, "[model] freeze: it leaves no parameter to train");
  optimizer_ = make_optimizer(config.optimizer, std::move(trained));
  optimizer_->clip_norm(config.clip_norm);
  loss_scale_ = make_loss_scale(dtype_, session_);
  const double beta = session_.parallel().elastic_beta, decay = beta > 0 ? 1 - beta : config.ema_decay;
  if (beta > 0 || decay > 0) average_ = std::make_unique<WeightAverage>(session_, model_->tensors(), decay);
}

std::vector<Parameter*> Learner::training_states() {
  std::vector<Parameter*> states = optimizer_->states(accumulates_);
  if (loss_scale_ != nullptr) states.insert(states.end(), loss_scale_->states().begin(), loss_scale_->states().end());
  if (average_ != nullptr) states.insert(states.end(), average_->averages().begin(), average_->averages().end());
  return states;
}

void Learner::restore(std::int32_t steps, std::int32_t updates, bool accumulated) {
  random_.step = steps;
  optimizer_->set_updates(updates);
  if (accumulated) optimizer_->set_accumulated();
}

void Learner::check(const Batch& batch) {
  const Step step = session_.step();
  RandomState random = random_;
  const Context::RandomScope scope(session_, random);
  static_cast<void>(model_->training_step(cast(Tensor(batch.images), dtype_), batch.labels, batch.labels));
}

Array Learner::weighted_targets(const Batch& batch) const {
  const std::size_t classes = class_weights_.size();
  const std::span<const std::int32_t> labels = batch.labels.as<std::int32_t>();
  std::vector<std::int64_t> extents(batch.labels.shape().extents().begin(), batch.labels.shape().extents().end());
  extents.push_back(std::ssize(class_weights_));
  Array targets(DType::f32, Shape(extents));
  const std::span<float> values = targets.as<float>();
  const bool mixed = batch.targets.size() > 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t label = i % classes;
    const double share = mixed ? static_cast<double>(batch.targets.as<float>()[i])
                               : (static_cast<std::size_t>(labels[i / classes]) == label ? 1.0 : 0.0);
    const double smoothed = (1 - loss_.label_smoothing) * share + loss_.label_smoothing / static_cast<double>(classes);
    values[i] = static_cast<float>(class_weights_[label] * smoothed);
  }
  return targets;
}

Learner::Recorded Learner::record(const Tensor& images, const Tensor& labels, const Tensor& truth, const Share& share) {
  const Context::RandomScope scope(session_, random_);
  ClassLoss loss = loss_;
  if (!class_weights_.empty()) loss.label_smoothing = 0;  // weighted targets are smoothed already
  const TrainingStep training = model_->training_step(cast(images, dtype_), labels, truth, loss);
  std::vector<Tensor> losses;
  for (const Objective& objective : training.objectives) losses.push_back(objective.loss);
  const Recorded recorded{losses.size() == 1 ? losses.front() : sum(losses),
                          accuracy(training.logits, training.labels)};
  backward(training.objectives, loss_scale_.get());
  const bool is_elastic = session_.parallel().elastic_beta > 0;
  if (share.count > 1) optimizer_->accumulate(1 / static_cast<double>(share.count));
  if (share.index + 1 == share.count) {
    optimizer_->step(loss_scale_.get());
    if (average_ != nullptr && !is_elastic) average_->record(optimizer_->updates() - 1);
  }
  if (share.averages && is_elastic) {
    average_->record_elastic();
  } else if (share.averages) {
    average_over_ranks(model_->tensors());
    average_over_ranks(training_states());
  }
  ++random_.step;
  return recorded;
}

}  // namespace braid
