#include "models/layers/module.h"

#include <algorithm>
#include <iterator>

namespace braid {

Tensor training_loss(std::span<const Head> heads, const Tensor& labels, double label_smoothing) {
  BRAID_CHECK(!heads.empty(), Error, "[training_loss] expected at least one head");
  std::vector<Tensor> losses;
  for (const Head& head : heads) {
    const Tensor loss = cross_entropy(head.logits, labels, label_smoothing);
    losses.push_back(head.weight == 1 ? loss : head.weight * loss);
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

TrainingStep Module::training_step(const Tensor& x, const Tensor& labels, const Tensor& truth, double label_smoothing) {
  const std::vector<Head> heads = this->heads(x);
  return {{{training_loss(heads, truth, label_smoothing)}}, heads.front().logits, labels};
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
