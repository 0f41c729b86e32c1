#include "autograd/tape.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace braid {

namespace {

/// Tapes with a live guard; the last one is current. Guards may go in any order.
thread_local std::vector<Tape*> guarded_tapes;

bool is_trainable(const Parameter& parameter) {
  return parameter.original() != nullptr ? parameter.original()->trainable : parameter.trainable;
}

}  // namespace

Tape& Tape::current() {
  BRAID_CHECK(!guarded_tapes.empty(), Error,
              "[tape] no step is being recorded in this thread: call session.step() first and keep the step alive");
  return *guarded_tapes.back();
}

Tape::Guard::Guard(Tape& tape) : tape_(tape) { guarded_tapes.push_back(&tape); }
Tape::Guard::~Guard() {
  guarded_tapes.erase(std::ranges::find(guarded_tapes.rbegin(), guarded_tapes.rend(), &tape_).base() - 1);
}

void Tape::start_step(ValueReader* reader) {
  graph_.clear();
  reader_ = reader;
  ++step_;
  step_numbers_.clear();
  closed_ = false;
  grad_enabled_ = true;
  layer_ = nullptr;
  layers_.clear();
  requires_gradient_.clear();
  casts_.clear();
  newest_.assign(context_.parameters().size(), kNotYet);
  gradient_.assign(context_.parameters().size(), {});
  inputs_.clear();
}

std::size_t Tape::slot_of(const Parameter& parameter) const {
  BRAID_CHECK(context_.owns(parameter), Error, "[tape] the parameter '", parameter.name(),
              "' belongs to another session");
  BRAID_CHECK(!parameter.released(), Error, "[tape] the parameter '", parameter.name(),
              "' has been released: its model is gone");
  return static_cast<std::size_t>(parameter.slot());
}

void Tape::check_open() const {
  BRAID_CHECK(
      !closed_, Error,
      "[tape] this step has run already: record everything before step.run() and before the first value is read");
}

void Tape::keep(ValueId value) {
  check_open();
  graph_.keep(value);
}

ValueId Tape::record_input(const Array& array) {
  check_open();
  BRAID_CHECK(array.data() != nullptr, ShapeError, "[tape] expected an array with elements, got an empty Array()");
  const ValueId id = graph_.add_input({array.dtype(), array.shape()});
  requires_gradient_.push_back(false);
  inputs_.emplace_back(id, array);
  return id;
}

ValueId Tape::record_parameter(Parameter& parameter) {
  const std::size_t slot = slot_of(parameter);
  if (slot >= newest_.size()) newest_.resize(slot + 1, kNotYet);
  if (newest_[slot] == kNotYet) {
    check_open();
    newest_[slot] = graph_.add_persistent(parameter.desc(), parameter.kind(), parameter.slot());
    requires_gradient_.push_back(is_trainable(parameter));
  }
  return newest_[slot];
}

ValueId Tape::record(OpPtr op, std::span<const ValueId> inputs) {
  return record(std::move(op), inputs, ValueKind::activation);
}

ValueId Tape::record(OpPtr op, std::span<const ValueId> inputs, ValueKind kind) {
  check_open();
  const ValueId first = graph_.add_node(std::move(op), inputs, kind);
  layers_.push_back(layer_);
  bool differentiable = false;
  if (grad_enabled_) {
    for (const ValueId input : inputs) differentiable = differentiable || requires_gradient(input);
  }
  for (ValueId id = first; id < graph_.value_count(); ++id) {
    const Value& output = graph_.value(id);
    if (output.previous == kNoValue) {
      requires_gradient_.push_back(differentiable && is_floating(output.desc.dtype));
    } else {
      // A new version of a parameter is a leaf again: gradients do not flow through an update.
      newest_[static_cast<std::size_t>(output.slot)] = id;
      requires_gradient_.push_back(is_trainable(context_.parameter(output.slot)));
    }
  }
  for (ValueId id = first; id < graph_.value_count(); ++id) {
    if (graph_.value(id).previous == kNoValue) continue;
    Parameter& parameter = context_.parameter(graph_.value(id).slot);
    if (parameter.rounded() == nullptr) continue;
    const auto copy = static_cast<std::size_t>(parameter.rounded()->slot());
    const bool updated = copy < newest_.size() && newest_[copy] != kNotYet && newest_[copy] >= first;
    if (!updated) context_.drop_rounded(parameter);
  }
  return first;
}

ValueId Tape::rounded_parameter(ValueId value, DType dtype) {
  const Value& v = graph_.value(value);
  if (v.slot < 0 || computed_in(dtype) == dtype) return kNoValue;
  if (v.kind != ValueKind::parameter || newest_[static_cast<std::size_t>(v.slot)] != value) return kNoValue;
  Parameter& parameter = context_.parameter(v.slot);
  if (parameter.rounded() == nullptr && v.previous != kNoValue) return kNoValue;  // it has changed in this step
  Parameter* copy = context_.rounded(parameter, dtype);
  return copy == nullptr ? kNoValue : record_parameter(*copy);
}

ValueId Tape::record_cast(ValueId value, DType dtype) {
  if (const ValueId copy = rounded_parameter(value, dtype); copy != kNoValue) return copy;
  const auto i = static_cast<std::size_t>(value);
  if (i >= casts_.size()) casts_.resize(i + 1, kNotYet);
  const ValueId known = casts_[i];
  // One that was recorded under no_grad does not lead gradients back to the value.
  const bool differentiable = grad_enabled_ && requires_gradient(value);
  if (known != kNotYet && graph_.value(known).desc.dtype == dtype && requires_gradient(known) == differentiable) {
    return known;
  }
  return casts_[i] = record(std::make_shared<ops::Cast>(dtype), std::span(&value, 1));
}

std::string_view Tape::layer(NodeId node) const {
  const std::string* name = layers_[static_cast<std::size_t>(node)];
  return name != nullptr ? *name : std::string_view();
}

ValueId Tape::step_number() {
  const RandomState& state = context_.random();
  for (const StepNumber& known : step_numbers_) {
    if (known.state == &state && known.step == state.step) return known.value;
  }
  const ValueId value = record_input(Array::scalar(state.step));
  step_numbers_.push_back({&state, state.step, value});
  return value;
}

ValueId Tape::gradient(const Parameter& parameter) const {
  const std::size_t slot = slot_of(parameter);
  if (slot >= gradient_.size() || gradient_[slot].of != newest_[slot]) return kNoValue;
  return gradient_[slot].value;
}

void Tape::set_gradient(const Parameter& parameter, ValueId gradient, ValueId of) {
  const std::size_t slot = slot_of(parameter);
  if (slot >= gradient_.size()) gradient_.resize(slot + 1);
  gradient_[slot] = {gradient, of};
}

Tensor::Tensor(const Array& array) : Tensor(Tape::current(), Tape::current().record_input(array)) {}
Tensor::Tensor(Parameter& parameter) : Tensor(Tape::current(), Tape::current().record_parameter(parameter)) {}
Tensor::Tensor(Tape& tape, ValueId id) : tape_(&tape), id_(id), step_(tape.step()) {}

Tape& Tensor::tape() const {
  BRAID_CHECK(tape_ != nullptr, Error, "[tensor] this tensor is undefined: it refers to no value");
  BRAID_CHECK(tape_->step() == step_, Error,
              "[tensor] this tensor belongs to an earlier step: read what you need before the next session.step()");
  return *tape_;
}

ValueId Tensor::id() const { return tape(), id_; }
const Shape& Tensor::shape() const { return tape().graph().value(id_).desc.shape; }
DType Tensor::dtype() const { return tape().graph().value(id_).desc.dtype; }

const Tensor& Tensor::keep() const {
  tape().keep(id_);
  return *this;
}

Array Tensor::array() const {
  ValueReader* reader = tape().reader();
  BRAID_CHECK(reader != nullptr, Error, "[tensor] the step of this tensor has ended");
  return reader->read_value(id_);
}

namespace {

double only_element(const Array& value) {
  BRAID_CHECK(value.size() == 1, ShapeError, "[tensor] item() expects a single element, got shape ", value.shape());
  switch (value.dtype()) {
    case DType::f32: return static_cast<double>(value.as<float>()[0]);
    case DType::f64: return value.as<double>()[0];
    case DType::f16: return static_cast<double>(static_cast<float>(value.as<Half>()[0]));
    case DType::bf16: return static_cast<double>(static_cast<float>(value.as<BFloat16>()[0]));
    case DType::i32: return value.as<std::int32_t>()[0];
    case DType::u8: return value.as<std::uint8_t>()[0];
  }
  return 0;
}

}  // namespace

double Tensor::item() const {
  BRAID_CHECK(shape().size() == 1, ShapeError, "[tensor] item() expects a single element, got shape ", shape());
  return only_element(array());
}

Fetched Tensor::fetch() const {
  ValueReader* reader = tape().reader();
  BRAID_CHECK(reader != nullptr, Error, "[tensor] the step of this tensor has ended");
  return Fetched(reader->fetch_value(id_));
}

Array Fetched::array() const {
  BRAID_CHECK(delivery_ != nullptr, Error, "[tensor] nothing was fetched: call fetch() on a tensor");
  while (!delivery_->arrived && delivery_->fault == nullptr) {
    const std::function<void()> wait = delivery_->wait;  // running the step replaces it
    wait();
  }
  if (delivery_->fault != nullptr) std::rethrow_exception(delivery_->fault);
  return delivery_->array;
}

double Fetched::item() const { return only_element(array()); }

}  // namespace braid
