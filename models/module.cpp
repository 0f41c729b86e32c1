#include "models/module.h"

namespace braid {

Module::Module(Context& context) : context_(context), name_(context.prefix()) {
  if (!name_.empty()) name_.pop_back();  // the dot
}

Tensor Module::operator()(const Tensor& x) {
  const Tape::Layer layer(x.tape(), name_);
  return forward(x);
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

Parameter& Module::add_tensor(std::string_view name, const Shape& shape, ValueKind kind) {
  Parameter& tensor = context_.add(name, {DType::f32, shape}, kind);
  tensors_.push_back(&tensor);
  return tensor;
}

std::vector<Parameter*> Module::collect(ValueKind kind) const {
  std::vector<Parameter*> list;
  for (Parameter* tensor : tensors_) {
    if (tensor->kind() == kind) list.push_back(tensor);
  }
  for (const auto& child : children_) {
    const auto inner = child->collect(kind);
    list.insert(list.end(), inner.begin(), inner.end());
  }
  return list;
}

}  // namespace braid
