#include "train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "autograd/functions.h"
#include "ops/collective/collective.h"
#include "ops/collective/compression.h"
#include "ops/optimizer/blend.h"
#include "ops/optimizer/clip_factor.h"
#include "ops/optimizer/optimizer.h"
#include "train/loss_scale.h"

namespace braid {

namespace {

SgdOptions update_options(const SGD::Options& options) {
  BRAID_CHECK(options.momentum >= 0 && options.momentum < 1, Error, "[sgd] expected a momentum in [0, 1), got ",
              options.momentum);
  BRAID_CHECK(!options.nesterov || options.momentum > 0, Error, "[sgd] nesterov needs a momentum above 0");
  return {.momentum = options.momentum, .nesterov = options.nesterov, .decoupled = options.decoupled};
}

AdamOptions update_options(const Adam::Options& options) {
  for (const double beta : {options.beta1, options.beta2}) {
    BRAID_CHECK(beta >= 0 && beta < 1, Error, "[adam] expected betas in [0, 1), got ", beta);
  }
  BRAID_CHECK(options.epsilon > 0, Error, "[adam] expected an epsilon above 0, got ", options.epsilon);
  return {.beta1 = options.beta1, .beta2 = options.beta2, .epsilon = options.epsilon, .decoupled = options.decoupled};
}

template <class Op, class Options>
auto update_of(const Options& options) {
  return [options](double weight_decay, bool scaled, bool rounded) -> OpPtr {
    Options own = options;
    own.weight_decay = weight_decay;
    own.scaled = scaled;
    own.rounded = rounded;
    return std::make_shared<Op>(own);
  };
}

/// Returns the value. Throws Error unless it is finite and at least 0.
double not_negative(std::string_view name, double value) {
  BRAID_CHECK(std::isfinite(value) && value >= 0, Error, "[optimizer] expected a ", name, " of at least 0, got ",
              value);
  return value;
}

}  // namespace

void record_blends(Tape& tape, double a, double b, std::span<Parameter* const> tensors,
                   const std::function<ValueId(std::size_t)>& value) {
  const ValueId coefficients = tape.record_input(Array::from<double>({a, b}, {2}));
  const OpPtr blend = std::make_shared<ops::Blend>();
  const std::size_t most =
      tape.context().parallel().stages() > 1 ? 1 : kBucketParameters;  // which may differ in stages
  for (std::size_t begin = 0, end = 0; begin < tensors.size(); begin = end) {
    std::vector<ValueId> inputs{coefficients};
    std::int64_t elements = 0;
    for (; end < tensors.size() && end - begin < most; ++end) {
      elements += tensors[end]->shape().size();
      if (elements > kBucketElements && end > begin) break;
      inputs.push_back(tape.record_parameter(*tensors[end]));
      inputs.push_back(value(end));
    }
    tape.record(blend, inputs);
  }
}

Tensor mean_over_ranks(Parameter& tensor) {
  if (tensor.context().parallel().ranks() == 1) return tensor;
  return apply_op(std::make_shared<ops::AverageOverRanks>(), {tensor});
}

void average_over_ranks(std::span<Parameter* const> tensors) {
  check_not_null("average_over_ranks", tensors);
  std::vector<Parameter*> averaged(tensors.begin(), tensors.end());
  std::erase_if(averaged, [](const Parameter* tensor) { return !is_floating(tensor->desc().dtype); });
  Tape& tape = Tape::current();
  Tape::Transaction transaction(tape);
  const NoGrad no_grad;
  record_blends(tape, 0, 1, averaged, [&](std::size_t i) { return mean_over_ranks(*averaged[i]).id(); });
  transaction.commit();
}

Optimizer::Optimizer(const ParameterGroups& groups, double lr, double weight_decay, Rule rule)
    : rule_(std::move(rule)) {
  set_lr(lr);
  for (const ParameterGroup& group : groups.list) {
    check_not_null("optimizer", group.parameters);
    BRAID_CHECK(!group.lr || lr > 0, Error,
                "[optimizer] the learning rates of groups change in proportion to the optimizer's: expected one above "
                "0, got ",
                lr);
    const double ratio = group.lr ? not_negative("learning rate", *group.lr) / lr : 1;
    const double decay = not_negative("weight decay", group.weight_decay.value_or(weight_decay));
    for (Parameter* parameter : group.parameters) slots_.push_back({parameter, ratio, decay});
  }
  std::ranges::stable_sort(slots_, std::ranges::greater{}, [](const Slot& slot) { return slot.parameter->slot(); });
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const Parameter &parameter = *slots_[i].parameter, &first = *slots_.front().parameter;
    BRAID_CHECK(parameter.store() == first.store(), Error, "[optimizer] '", parameter.name(), "' and '", first.name(),
                "' belong to different sessions: make an optimizer for each");
    BRAID_CHECK(i == 0 || slots_[i - 1].parameter != &parameter, Error, "[optimizer] the parameter '", parameter.name(),
                "' was given twice");
  }
  progress_->summed.resize(slots_.size());
  if (!slots_.empty()) tensors_.emplace(*slots_.front().parameter);
}

void Optimizer::set_lr(double lr) { lr_ = not_negative("learning rate", lr); }

void Optimizer::clip_value(double max_value) { max_value_ = not_negative("max_value", max_value); }

void Optimizer::clip_norm(double max_norm) { max_norm_ = not_negative("max_norm", max_norm); }

std::vector<Parameter*> Optimizer::states(bool accumulates) {
  add_moments();
  if (accumulates) add_sums();
  add_kept();
  std::vector<Parameter*> states;
  for (const Slot& slot : slots_) {
    states.insert(states.end(), slot.moments.begin(), slot.moments.end());
    if (slot.sum != nullptr) states.push_back(slot.sum);
    states.insert(states.end(), slot.delayed.begin(), slot.delayed.end());
    if (slot.residual != nullptr) states.push_back(slot.residual);
  }
  return states;
}

void Optimizer::accumulate(double weight) {
  Tape& tape = checked_tape();
  BRAID_CHECK(slots_.empty() || !tensors_->context().parallel().keeps_gradients(), Error,
              "[optimizer] gradients that are accumulated cannot be compressed or delayed: accumulate one step");
  Tape::Transaction transaction(tape);
  const NoGrad no_grad;
  std::vector<Slot*> slots;
  for (Slot& slot : slots_) {
    if (tape.gradient(*slot.parameter) != kNoValue) slots.push_back(&slot);
  }
  BRAID_CHECK(!slots.empty(), Error, "[optimizer] no parameter has a gradient in this step: call backward(loss) first");
  add_moments();
  add_sums();
  // Slots of one node share the type of the gradient, and whether their sums begin.
  const auto kind = [&](const Slot* slot) {
    return std::pair(summed(*slot), tape.graph().value(tape.gradient(*slot->parameter)).desc.dtype);
  };
  std::ranges::stable_sort(slots, {}, kind);
  for (std::size_t begin = 0, end; begin < slots.size(); begin = end) {
    std::vector<Parameter*> sums;
    for (end = begin; end < slots.size() && kind(slots[end]) == kind(slots[begin]); ++end) {
      sums.push_back(slots[end]->sum);
    }
    record_blends(tape, summed(*slots[begin]) ? 1 : 0, weight, sums,
                  [&](std::size_t i) { return tape.gradient(*slots[begin + i]->parameter); });
  }
  for (const Slot* slot : slots) tape.forget_gradient(*slot->parameter);
  transaction.commit();
  restore_unless_run(tape);
  for (const Slot* slot : slots) progress_->summed[index(*slot)] = true;
  progress_->accumulated = true;
}

void Optimizer::set_accumulated() {
  progress_->summed.assign(slots_.size(), true);
  progress_->accumulated = true;
}

ValueId Optimizer::gradient(Tape& tape, const Slot& slot) const {
  if (!accumulated()) return tape.gradient(*slot.parameter);
  return summed(slot) ? tape.record_parameter(*slot.sum) : kNoValue;
}

void Optimizer::step(LossScale* scale) {
  Tape& tape = checked_tape();
  Tape::Transaction transaction(tape);
  const NoGrad no_grad;
  std::vector<const Slot*> slots;
  std::vector<ValueId> gradients;
  for (const Slot& slot : slots_) {
    const ValueId value = gradient(tape, slot);
    if (value == kNoValue) continue;
    slots.push_back(&slot);
    gradients.push_back(value);
  }
  BRAID_CHECK(!slots.empty(), Error, "[optimizer] no parameter has a gradient in this step: call backward(loss) first");
  BRAID_CHECK(max_value_ == 0 || scale == nullptr, Error,
              "[optimizer] clip_value does not know the scale of a scaled loss: use clip_norm");
  const ParallelOptions& parallel = tensors_->context().parallel();
  BRAID_CHECK(
      scale == nullptr || (!parallel.keeps_gradients() && parallel.average_every == 0), Error,
      "[optimizer] a scaled loss needs gradients that ranks add in every step: train in f32 or bf16, or without "
      "compression, staleness and average_every");
  add_moments();
  add_kept();
  exchange(tape, slots, gradients);
  if (max_value_ > 0) {
    for (ValueId& value : gradients) value = clamp(tape.tensor(value), -max_value_, max_value_).id();
  }
  std::map<double, ValueId> rates;
  for (const Slot* slot : slots) {
    if (!rates.contains(slot->lr_ratio)) {
      rates[slot->lr_ratio] = tape.record_input(Array::scalar(lr_ * slot->lr_ratio));
    }
  }
  const std::vector<ValueId> scalars = record_scalars(tape, scale, gradients);

  // The parameters of a bucket share a rate, a decay, the type of their gradients, a layout and a stage.
  std::map<std::tuple<Layouts, std::int16_t, DType, double, double>, Bucket> open;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Parameter& parameter = *slots[i]->parameter;
    const DType dtype = tape.graph().value(gradients[i]).desc.dtype;
    const double ratio = slots[i]->lr_ratio, decay = parameter.weight_decay ? slots[i]->weight_decay : 0;
    Bucket& bucket = open[{parameter.layouts(), parameter.stage(), dtype, decay, ratio}];
    if (bucket.op == nullptr) {
      bucket.op = rule_.update(decay, scale != nullptr || max_norm_ > 0, dtype != parameter.desc().dtype);
      bucket.lr = rates.at(ratio);
    }
    const std::int64_t elements = parameter.shape().size();
    if (bucket.elements + elements > kBucketElements || bucket.members.size() == kBucketParameters) {
      record(tape, scalars, bucket);
    }
    bucket.members.emplace_back(slots[i], gradients[i]);
    bucket.elements += elements;
  }
  for (auto& [kind, bucket] : open) record(tape, scalars, bucket);
  transaction.commit();
  restore_unless_run(tape);
  ++progress_->updates;
  progress_->summed.assign(slots_.size(), false);
  progress_->accumulated = false;
}

void Optimizer::exchange(Tape& tape, std::span<const Slot* const> slots, std::span<ValueId> gradients) const {
  const ParallelOptions& parallel = tensors_->context().parallel();
  if (!parallel.keeps_gradients()) return;
  const auto to_shards = std::make_shared<ops::ToShards>(parallel.shard_count());
  const auto& [method, ratio] = parallel.compression;
  const bool compresses = method != Compression::Method::none;
  const Tensor number = compresses ? Tensor(Array::scalar(updates())) : Tensor();
  std::vector<std::vector<Parameter*>> delayed(static_cast<std::size_t>(parallel.staleness));
  std::vector<std::vector<ValueId>> newer(delayed.size() + 1);  // what they become, and what is exchanged
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const ValueDesc& desc = slots[i]->parameter->desc();
    newer[0].push_back(apply_op(to_shards, {cast(tape.tensor(gradients[i]), desc.dtype)}).id());
    for (std::size_t d = 0; d < delayed.size(); ++d) {
      delayed[d].push_back(slots[i]->delayed[d]);
      newer[d + 1].push_back(tape.record_parameter(*slots[i]->delayed[d]));
    }
    const Tensor own = tape.tensor(newer.back().back());
    Tensor exchanged;
    if (slots[i]->residual == nullptr) {
      exchanged = sum(own, {0});
    } else {
      const auto compress = std::make_shared<ops::Compress>(method, ratio);
      const Tensor message = apply_op(compress, {number, own, *slots[i]->residual});
      exchanged = apply_op(std::make_shared<ops::Decompress>(method, ratio, desc.dtype, desc.shape), {message});
    }
    gradients[i] = cast(exchanged, tape.graph().value(gradients[i]).desc.dtype).id();
  }
  for (std::size_t d = delayed.size(); d-- > 0;) {  // the oldest first, as each reads the one after it
    record_blends(tape, 0, 1, delayed[d], [&](std::size_t i) { return newer[d][i]; });
  }
}

std::vector<ValueId> Optimizer::record_scalars(Tape& tape, LossScale* scale, std::span<const ValueId> gradients) const {
  std::vector<ValueId> scalars;
  LossScale::Update scaled{kNoValue, kNoValue};
  if (scale != nullptr) scaled = scale->record_update(tape, gradients);
  if (rule_.counts_steps) {
    scalars.push_back(scale != nullptr ? scaled.updates : tape.record_input(Array::scalar(updates() + 1)));
  }
  if (max_norm_ > 0) {
    std::vector<ValueId> inputs(gradients.begin(), gradients.end());
    if (scale != nullptr) inputs.insert(inputs.begin(), scaled.factor);
    const ClipOptions options{.max_norm = max_norm_, .scaled = scale != nullptr};
    scaled.factor = tape.record(std::make_shared<ops::ClipFactor>(options), inputs);
  }
  if (scaled.factor != kNoValue) scalars.push_back(scaled.factor);
  return scalars;
}

Tape& Optimizer::checked_tape() const {
  Tape& tape = Tape::current();
  for (const Slot& slot : slots_) {
    tape.gradient(*slot.parameter);  // throws if it is another session's, or released
  }
  BRAID_CHECK(!tape.closed(), Error, "[optimizer] this step has run already: record the update before step.run()");
  return tape;
}

void Optimizer::restore_unless_run(Tape& tape) const {
  tape.undo().add([progress = progress_, before = *progress_] { *progress = before; });
}

void Optimizer::add_moments() {
  for (Slot& slot : slots_) {
    for (std::size_t i = slot.moments.size(); i < rule_.moments.size(); ++i) {
      const std::string name = message("optimizer.", slot.parameter->name(), '.', rule_.moments[i]);
      slot.moments.push_back(
          &tensors_->add_another(name, slot.parameter->desc(), ValueKind::state, slot.parameter->layouts()));
    }
  }
}

void Optimizer::add_sums() {
  for (Slot& slot : slots_) {
    if (slot.sum != nullptr) continue;
    const std::string name = message("optimizer.", slot.parameter->name(), ".sum");
    slot.sum = &tensors_->add_another(name, slot.parameter->desc(), ValueKind::state);
  }
}

void Optimizer::add_kept() {
  if (slots_.empty() || !tensors_->context().parallel().keeps_gradients()) return;
  const ParallelOptions& parallel = tensors_->context().parallel();
  for (Slot& slot : slots_) {
    const Shape& shape = slot.parameter->shape();
    const auto add = [&](const std::string& name) {
      const ValueDesc desc{slot.parameter->desc().dtype, ops::with_rows(parallel.shard_count(), shape)};
      const std::string full = message("optimizer.", slot.parameter->name(), '.', name);
      return &tensors_->add_another(full, desc, ValueKind::state, on_all_axes(Layout::split));
    };
    while (std::ssize(slot.delayed) < parallel.staleness) {
      slot.delayed.push_back(add(message("delayed.", slot.delayed.size() + 1)));
    }
    const bool compresses = parallel.compression.method != Compression::Method::none;
    const bool is_compressed = compresses && shape.size() >= ops::MessageFormat::kBlock;
    if (is_compressed && slot.residual == nullptr) slot.residual = add("residual");
  }
}

void Optimizer::record(Tape& tape, std::span<const ValueId> scalars, Bucket& bucket) const {
  if (bucket.members.empty()) return;
  std::vector<ValueId> inputs{bucket.lr};
  inputs.insert(inputs.end(), scalars.begin(), scalars.end());
  for (const auto& [slot, value] : bucket.members) {
    inputs.push_back(tape.record_parameter(*slot->parameter));
    inputs.push_back(value);
    for (Parameter* moment : slot->moments) inputs.push_back(tape.record_parameter(*moment));
    const DType dtype = tape.graph().value(value).desc.dtype;
    if (dtype != slot->parameter->desc().dtype) inputs.push_back(tape.record_parameter(*slot->parameter->rounded()));
  }
  tape.record(bucket.op, inputs);
  bucket.members.clear();
  bucket.elements = 0;
}

SGD::SGD(const ParameterGroups& parameters, const Options& options)
    : Optimizer(parameters, options.lr, options.weight_decay, [&] {
        Rule rule{.update = update_of<ops::SgdUpdate>(update_options(options))};
        if (options.momentum != 0) rule.moments = {"momentum"};
        return rule;
      }()) {}

Adam::Adam(const ParameterGroups& parameters, const Options& options)
    : Optimizer(parameters, options.lr, options.weight_decay,
                {.update = update_of<ops::AdamUpdate>(update_options(options)),
                 .moments = {"mean", "variance"},
                 .counts_steps = true}) {}

AdamW::AdamW(const ParameterGroups& parameters, Options options)
    : Adam(parameters, (options.decoupled = true, options)) {}

}  // namespace braid
