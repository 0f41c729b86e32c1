#include "models/layers/module.h"

#include <algorithm>
#include <iterator>

namespace braid {

Tensor ClassLoss::operator()(const Tensor& logits, const Tensor& truth) const {
  if (kind == Kind::cross_entropy) return cross_entropy(logits, truth, label_smoothing);
  const DType dtype = computed_in(logits.dtype());
  const std::int64_t classes = logits.shape()[-1];
  const Tensor scores = cast(logits, dtype);
  Tensor target = is_floating(truth.dtype()) ? cast(truth, dtype) : one_hot(truth, classes, dtype);
  if (label_smoothing > 0) target = (1 - label_smoothing) * target + label_smoothing / static_cast<double>(classes);
  if (kind == Kind::binary_cross_entropy) return binary_cross_entropy_with_logits(scores, target);
  const Tensor logarithm = log_softmax(scores);
  return mean(sum(-(target * pow(1 - exp(logarithm), gamma)) * logarithm, -1));
}

Tensor training_loss(std::span<const Head> heads, const Tensor& labels, const ClassLoss& loss) {
  BRAID_CHECK(!heads.empty(), Error, "[training_loss] expected at least one head");
  std::vector<Tensor> losses;
  for (const Head& head : heads) {
    const Tensor of_head = loss(head.logits, labels);
    losses.push_back(head.weight == 1 ? of_head : head.weight * of_head);
  }
  return losses.size() == 1 ? losses.front() : sum(losses);
}

void backward(std::span<const Objective> objectives) {
  for (const auto& [loss, parameters] : objectives) {
    if (parameters.empty()) {
      backward(loss);
    } else if (std::ranges::any_of(parameters, &Parameter::trainable)) {
      backward(loss, parameters);
    }
  }
}

Module::Module(Context& context) : tensors_(context), name_(context.prefix()) {
  if (!name_.empty()) name_.pop_back();  // the dot
}

Tensor Module::forward(const Tensor&) {
  throw Error(message("[module ", name_, "] has no forward(x): call it with a list of tensors, as in net({a, b})"));
}

std::vector<Tensor> Module::forward_all(std::span<const Tensor> inputs) {
  BRAID_CHECK(inputs.size() == 1, Error, "[module ", name_, "] expected one tensor, got ", inputs.size());
  return {forward(inputs[0])};
}

TrainingStep Module::training_step(const Tensor& x, const Tensor& labels, const Tensor& truth, const ClassLoss& loss) {
  const std::vector<Head> heads = this->heads(x);
  return {{{training_loss(heads, truth, loss)}}, heads.front().logits, labels};
}

Tensor Module::operator()(const Tensor& x) {
  context();
  const Tape::Layer layer(x.tape(), name_);
  return forward(x);
}

std::vector<Tensor> Module::operator()(std::span<const Tensor> inputs) {
  context();
  BRAID_CHECK(!inputs.empty(), Error, "[module ", name_, "] expected at least one tensor");
  const Tape::Layer layer(inputs[0].tape(), name_);
  return forward_all(inputs);
}

std::vector<Parameter*> Module::tensors() const {
  std::vector<Parameter*> tensors = parameters();
  std::ranges::copy(states(), std::back_inserter(tensors));
  return tensors;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> list{this};
  for (const auto& child : children_) std::ranges::copy(child->modules(), std::back_inserter(list));
  return list;
}

std::int64_t Module::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter* parameter : parameters()) count += parameter->shape().size();
  return count;
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& child : children_) child->train(on);
}

std::string Module::path_of(std::string_view child) const {
  const std::string path = name_.empty() ? std::string(child) : message(name_, '.', child);
  const std::string& prefix = context().prefix();
  BRAID_CHECK(path.starts_with(prefix), Error, "[model] the module '", path, "' cannot be made within '", prefix, "'");
  return path.substr(prefix.size());
}

std::vector<Parameter*> Module::collect(ValueKind kind) const {
  std::vector<Parameter*> list;
  for (Parameter* tensor : tensors_.all()) {
    if (tensor->kind() == kind) list.push_back(tensor);
  }
  for (const auto& child : children_) std::ranges::copy(child->collect(kind), std::back_inserter(list));
  return list;
}

}  // namespace braid
