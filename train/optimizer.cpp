#include "train/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/optimizer.h"
#include "train/loss_scale.h"

namespace braid {

namespace {

SgdOptions update_options(const SGD::Options& options) {
  BRAID_CHECK(options.momentum >= 0 && options.momentum < 1, Error, "[sgd] expected a momentum in [0, 1), got ",
              options.momentum);
  BRAID_CHECK(options.weight_decay >= 0, Error, "[sgd] expected a weight decay of at least 0, got ",
              options.weight_decay);
  BRAID_CHECK(!options.nesterov || options.momentum > 0, Error, "[sgd] nesterov needs a momentum above 0");
  return {.momentum = options.momentum,
          .weight_decay = options.weight_decay,
          .nesterov = options.nesterov,
          .decoupled = options.decoupled};
}

AdamOptions update_options(const Adam::Options& options) {
  for (const double beta : {options.beta1, options.beta2}) {
    BRAID_CHECK(beta >= 0 && beta < 1, Error, "[adam] expected betas in [0, 1), got ", beta);
  }
  BRAID_CHECK(options.epsilon > 0, Error, "[adam] expected an epsilon above 0, got ", options.epsilon);
  BRAID_CHECK(options.weight_decay >= 0, Error, "[adam] expected a weight decay of at least 0, got ",
              options.weight_decay);
  return {.beta1 = options.beta1,
          .beta2 = options.beta2,
          .epsilon = options.epsilon,
          .weight_decay = options.weight_decay,
          .decoupled = options.decoupled};
}

/// The op with weight decay and, if weight decay is on, the op without it.
template <class Op, class Update, class Options>
Update make_update(Options options, bool scaled) {
  options.scaled = scaled;
  const OpPtr decayed = std::make_shared<Op>(options);
  if (options.weight_decay == 0) return {decayed, decayed};
  options.weight_decay = 0;
  return {decayed, std::make_shared<Op>(options)};
}

}  // namespace

Optimizer::Optimizer(std::vector<Parameter*> parameters, double lr, Rule rule) : rule_(std::move(rule)) {
  set_lr(lr);
  std::ranges::stable_sort(parameters, std::ranges::greater{}, &Parameter::slot);
  for (Parameter* parameter : parameters) {
    BRAID_CHECK(slots_.empty() || slots_.back().parameter != parameter, Error, "[optimizer] the parameter '",
                parameter->name(), "' was given twice");
    slots_.push_back({parameter, {}});
  }
}

Optimizer::~Optimizer() {
  if (context_ == nullptr) return;
  for (const Slot& slot : slots_) context_->release(slot.moments);
}

void Optimizer::set_lr(double lr) {
  BRAID_CHECK(std::isfinite(lr) && lr >= 0, Error, "[optimizer] expected a learning rate of at least 0, got ", lr);
  lr_ = lr;
}

void Optimizer::step(LossScale* scale) {
  Tape& tape = Tape::current();
  if (context_ == nullptr) add_moments(tape.context());
  const NoGrad no_grad;
  std::vector<const Slot*> slots;
  std::vector<ValueId> gradients;
  for (const Slot& slot : slots_) {
    const ValueId gradient = tape.gradient(*slot.parameter);
    if (gradient == kNoValue) continue;
    slots.push_back(&slot);
    gradients.push_back(gradient);
  }
  BRAID_CHECK(!slots.empty(), Error, "[optimizer] no parameter has a gradient in this step: call backward(loss) first");
  const std::vector<ValueId> scalars = record_scalars(tape, scale, gradients);

  const Update& update = scale == nullptr ? rule_.update : rule_.scaled;
  const std::array ops{update.plain, update.decayed};
  std::array<Bucket, 2> open;
  for (const Slot* slot : slots) {
    const std::size_t kind = slot->parameter->weight_decay || update.plain == update.decayed ? 1 : 0;
    Bucket& bucket = open[kind];
    const std::int64_t elements = slot->parameter->shape().size();
    if (bucket.elements + elements > kBucketElements || bucket.slots.size() == kBucketParameters) {
      record(tape, ops[kind], scalars, bucket);
    }
    bucket.slots.push_back(slot);
    bucket.elements += elements;
  }
  for (std::size_t kind = 0; kind < open.size(); ++kind) record(tape, ops[kind], scalars, open[kind]);
  ++updates_;
}

std::vector<ValueId> Optimizer::record_scalars(Tape& tape, LossScale* scale, std::span<const ValueId> gradients) const {
  std::vector<ValueId> scalars{tape.record_input(Array::scalar(static_cast<float>(lr_)))};
  if (scale == nullptr) {
    if (rule_.counts_steps) scalars.push_back(tape.record_input(Array::scalar(updates_ + 1)));
    return scalars;
  }
  const auto [updates, factor] = scale->record_update(tape, gradients);
  if (rule_.counts_steps) scalars.push_back(updates);
  scalars.push_back(factor);
  return scalars;
}

void Optimizer::add_moments(Context& context) {
  for (Slot& slot : slots_) {
    slot.moments.clear();  // left by an attempt that ran out of memory
    for (const std::string_view moment : rule_.moments) {
      const std::string name = message("optimizer.", slot.parameter->name(), '.', moment);
      slot.moments.push_back(&context.add(name, slot.parameter->desc(), ValueKind::state));
    }
  }
  context_ = &context;
}

void Optimizer::record(Tape& tape, const OpPtr& op, std::span<const ValueId> scalars, Bucket& bucket) const {
  if (bucket.slots.empty()) return;
  std::vector<ValueId> inputs(scalars.begin(), scalars.end());
  for (const Slot* slot : bucket.slots) {
    inputs.push_back(tape.record_parameter(*slot->parameter));
    inputs.push_back(tape.gradient(*slot->parameter));
    for (Parameter* moment : slot->moments) inputs.push_back(tape.record_parameter(*moment));
  }
  tape.record(op, inputs);
  bucket = {};
}

SGD::SGD(std::vector<Parameter*> parameters, const Options& options)
    : Optimizer(std::move(parameters), options.lr, [&] {
        const SgdOptions update = update_options(options);
        Rule rule{.update = make_update<ops::SgdUpdate, Update>(update, false),
                  .scaled = make_update<ops::SgdUpdate, Update>(update, true),
                  .moments = {}};
        if (options.momentum != 0) rule.moments = {"momentum"};
        return rule;
      }()) {}

Adam::Adam(std::vector<Parameter*> parameters, const Options& options)
    : Optimizer(std::move(parameters), options.lr, [&] {
        const AdamOptions update = update_options(options);
        return Rule{.update = make_update<ops::AdamUpdate, Update>(update, false),
                    .scaled = make_update<ops::AdamUpdate, Update>(update, true),
                    .moments = {"mean", "variance"},
                    .counts_steps = true};
      }()) {}

AdamW::AdamW(std::vector<Parameter*> parameters, Options options)
    : Adam(std::move(parameters), (options.decoupled = true, options)) {}

}  // namespace braid
