#include "core/context.h"

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
    if (!std::exchange(parameter->released_, true)) released_.push_back(parameter);
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
}

Generator Context::generator(std::string_view name) const { return Generator(random().seed, Hash{}.add(name).low); }

Context::Scope::Scope(Context& context, std::string_view name) : context_(context), length_(context.prefix_.size()) {
  context.prefix_.append(name).append(1, '.');
}

}  // namespace braid
