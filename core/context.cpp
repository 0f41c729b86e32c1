#include "core/context.h"

#include <algorithm>

namespace braid {

Parameter& Context::add(std::string_view name, const ValueDesc& desc, ValueKind kind) {
  Parameter& parameter = storage_.emplace_back();
  parameter.name_ = prefix_ + std::string(name);
  parameter.desc_ = desc;
  parameter.kind_ = kind;
  parameter.trainable = kind == ValueKind::parameter;
  parameter.slot_ = static_cast<std::int32_t>(parameters_.size());
  parameter.buffer_ = backend_->allocate(size_of(desc.dtype) * static_cast<std::size_t>(desc.shape.size()));
  parameters_.push_back(&parameter);
  return parameter;
}

void Context::release(std::span<Parameter* const> parameters) {
  for (Parameter* parameter : parameters) {
    if (std::exchange(parameter->released_, true)) continue;
    released_.push_back(parameter);
    if (Parameter* copy = std::exchange(parameter->rounded_, nullptr)) release({&copy, 1});
  }
}

void Context::free_released() {
  if (released_.empty()) return;
  synchronize();
  for (Parameter* parameter : released_) parameter->buffer_ = {};
  released_.clear();
}

Array Context::read(const Parameter& parameter) {
  synchronize();
  Array array(parameter.desc().dtype, parameter.shape());
  backend_->copy_to_host(array.data(), parameter.data(), array.bytes());
  return array;
}

void Context::write(Parameter& parameter, const Array& value) {
  BRAID_CHECK(value.dtype() == parameter.desc().dtype && value.shape() == parameter.shape(), ShapeError, "[",
              parameter.name(), "] expected ", parameter.desc().dtype, ' ', parameter.shape(), ", got ", value.dtype(),
              ' ', value.shape());
  synchronize();
  backend_->copy_to_device(parameter.data(), value.data(), value.bytes());
  note_change(parameter.slot());
  if (parameter.rounded() != nullptr) write_rounded(parameter, value);
}

Parameter* Context::rounded(Parameter& parameter, DType dtype) {
  if (parameter.rounded() == nullptr) {
    if (!parameter.may_be_rounded_ || parameter.desc().dtype != DType::f32) return nullptr;
    Parameter& copy = add("", {dtype, parameter.shape()}, ValueKind::state);
    copy.name_ = message(parameter.name(), '.', dtype);
    copy.original_ = &parameter;
    parameter.rounded_ = &copy;
    write_rounded(parameter, read(parameter));
  }
  return parameter.rounded()->desc().dtype == dtype ? parameter.rounded() : nullptr;
}

void Context::drop_rounded(Parameter& parameter) {
  parameter.may_be_rounded_ = false;
  if (Parameter* copy = std::exchange(parameter.rounded_, nullptr)) release({&copy, 1});
}

void Context::write_rounded(const Parameter& parameter, const Array& value) {
  Parameter& copy = *parameter.rounded();
  Array array(copy.desc().dtype, copy.shape());
  const auto round = [&]<class T>(std::span<T> to) {
    std::ranges::transform(value.as<float>(), to.begin(), [](float element) { return T(element); });
  };
  if (copy.desc().dtype == DType::f16) {
    round(array.as<Half>());
  } else {
    round(array.as<BFloat16>());
  }
  backend_->copy_to_device(copy.data(), array.data(), array.bytes());
  note_change(copy.slot());
}

Generator Context::generator(std::string_view name) const { return Generator(random().seed, Hash{}.add(name).low); }

Context::Scope::Scope(Context& context, std::string_view name) : context_(context), length_(context.prefix_.size()) {
  context.prefix_.append(name).append(1, '.');
}

}  // namespace braid
