// Reverse-mode differentiation over the tape. Gradient rules emit ordinary nodes, so the backward pass is scheduled
// like everything else.

#include <algorithm>

#include "autograd/tape.h"
#include "ops/elementwise/elementwise.h"
#include "ops/layout/concat.h"

namespace braid {

class BackwardPass final : public GradientContext {
 public:
  /// Differentiates with respect to the needed values (those that depend on a target); empty: all that require a
  /// gradient.
  BackwardPass(Tape& tape, std::vector<bool> needed)
      : tape_(tape), layer_(tape.layer_), needed_(std::move(needed)), last_(tape.graph().node_count()) {
    contributions_.assign(graph().value_count(), kNone);
  }

  ~BackwardPass() override {
    tape_.layer_ = layer_;
    tape_.stage_ = Parameter::kNoStage;
  }

  void run(ValueId loss) {
    const ValueDesc desc = graph().value(loss).desc;
    contribute(loss, record(std::make_shared<ops::Fill>(desc, 1.0), {}));
    // Ends early where all remaining nodes were recorded for other losses.
    for (NodeId id = last_ - 1; id >= 0 && pending_ > 0; --id) {
      tape_.layer_ = tape_.layers_[id];
      tape_.stage_ = graph().node(id).stage;
      differentiate(id);
    }
    tape_.layer_ = nullptr;
    tape_.stage_ = Parameter::kNoStage;
    finish_leaves();
  }

  int input_count() const override { return node_.input_count; }
  ValueId input(int i) const override { return graph().inputs(node_)[i]; }
  ValueId output(int i) const override { return node_.first_output + i; }
  ValueDesc desc(ValueId value) const override { return graph().value(value).desc; }
  ValueId output_gradient(int i) const override { return output_gradients_[i]; }
  bool needs(int i) const override { return is_needed(input(i)); }
  using GradientContext::record;
  ValueId record(OpPtr op, std::span<const ValueId> inputs) override {
    return tape_.record(std::move(op), inputs, ValueKind::gradient);
  }
  void set_input_gradient(int i, ValueId gradient) override {
    if (needs(i) && gradient != kNoValue) contribute(input(i), gradient);
  }
  void set_input_gradient_slice(int i, ValueId wide, std::int64_t first) override { contribute(input(i), wide, first); }

 private:
  /// Contributions to the gradient of one value, a linked list in order of arrival.
  struct Contribution {
    ValueId gradient;
    std::int64_t first_channel;  // kWhole unless it is a slice of `gradient`
    std::int32_t next;
  };
  static constexpr std::int32_t kNone = -1;
  static constexpr std::int64_t kWhole = -1;

  const StepGraph& graph() const { return tape_.graph(); }

  bool is_needed(ValueId value) const { return tape_.requires_gradient(value) && (needed_.empty() || needed_[value]); }
  /// Whether a node is to be differentiated for the value. A new version of a parameter is a leaf, as the first one is:
  /// gradients do not flow through the update.
  bool is_inner(ValueId value) const { return tape_.differentiation_[value] == Tape::Differentiation::inner; }

  void contribute(ValueId value, ValueId gradient, std::int64_t first_channel = kWhole) {
    std::int32_t* link = &contributions_[value];
    if (*link == kNone && is_inner(value)) ++pending_;
    while (*link != kNone) link = &list_[*link].next;
    *link = static_cast<std::int32_t>(list_.size());
    list_.push_back({gradient, first_channel, kNone});
  }

  /// The sum of all contributions, added in order of arrival; kNoValue if there are none. Slices are cut from their
  /// values only here, because many of them can be added without copying each.
  ValueId gradient_of(ValueId value) {
    terms_.clear();
    begins_.clear();
    bool slices = false;
    for (std::int32_t i = contributions_[value]; i != kNone; i = list_[i].next) {
      const Contribution& contribution = list_[i];
      terms_.push_back(contribution.gradient);
      begins_.push_back(std::max<std::int64_t>(0, contribution.first_channel));
      slices = slices || contribution.first_channel != kWhole;
    }
    if (slices) {
      const Shape shape = graph().value(value).desc.shape;
      const std::int64_t count = shape[shape.rank() - 1];
      if (terms_.size() == 1) return record(std::make_shared<ops::ChannelSlice>(begins_[0], count), terms_);
      return record(std::make_shared<ops::SliceSum>(begins_, count), terms_);
    }
    if (terms_.size() <= 1) return terms_.empty() ? kNoValue : terms_[0];
    return record(std::make_shared<ops::Sum>(), terms_);
  }

  void differentiate(NodeId id) {
    // A copy: recording may move the graph's arrays.
    node_ = graph().node(id);
    bool wanted = false;
    output_gradients_.clear();
    for (int i = 0; i < node_.output_count; ++i) {
      const ValueId out = output(i);
      if (is_inner(out) && contributions_[out] != kNone) --pending_;
      const bool inner = is_inner(out) && is_needed(out);
      const ValueId gradient = inner ? gradient_of(out) : kNoValue;
      output_gradients_.push_back(gradient);
      if (gradient == kNoValue) continue;
      tape_.value_gradients_.emplace_back(out, gradient);
      wanted = true;
    }
    const auto needed = [&](ValueId input) { return is_needed(input); };
    if (wanted && std::ranges::any_of(graph().inputs(node_), needed)) node_.op->gradient(*this);
  }

  /// Gradients of inputs, and those of parameters, added to those of an earlier backward pass if there was one.
  void finish_leaves() {
    for (std::size_t i = 0; i < contributions_.size(); ++i) {
      const auto id = static_cast<ValueId>(i);
      if (contributions_[i] == kNone || is_inner(id) || !is_needed(id)) continue;
      const std::int32_t slot = graph().value(id).slot;
      if (slot < 0) {
        tape_.value_gradients_.emplace_back(id, gradient_of(id));
        continue;
      }
      Parameter& leaf_parameter = tape_.context().parameter(slot);
      Parameter& parameter = leaf_parameter.original() != nullptr ? *leaf_parameter.original() : leaf_parameter;
      const bool is_old = graph().is_overwritten(id) || (&leaf_parameter != &parameter && leaf_parameter.released());
      BRAID_CHECK(!is_old, Error, "[backward] the loss was computed before '", parameter.name(),
                  "' was updated in this step: call backward() before the update");
      const ValueId of = tape_.record_parameter(parameter);
      ValueId gradient = gradient_of(id), earlier = tape_.gradient(parameter);
      if (earlier != kNoValue) {
        const DType dtype = desc(earlier).dtype == desc(gradient).dtype ? desc(gradient).dtype : parameter.desc().dtype;
        earlier = ops::cast(*this, earlier, dtype);
        gradient = record(std::make_shared<ops::Sum>(), {earlier, ops::cast(*this, gradient, dtype)});
      }
      tape_.set_gradient(parameter, gradient, of);
    }
  }

  Tape& tape_;
  const std::string* const layer_;  // the layer that the pass is recorded in
  std::vector<bool> needed_;        // per value; empty: all
  NodeId last_;
  Node node_;
  std::vector<std::int32_t> contributions_;  // per value: head of its list
  std::vector<Contribution> list_;
  std::int64_t pending_ = 0;  // values whose gradient is not complete yet
  std::vector<ValueId> output_gradients_, terms_;
  std::vector<std::int64_t> begins_;
};

namespace {

Tape& checked_tape(const Tensor& loss) {
  BRAID_CHECK(loss.shape().size() == 1, ShapeError, "[backward] expected a loss of one element, got shape ",
              loss.shape());
  Tape& tape = loss.tape();
  BRAID_CHECK(tape.requires_gradient(loss.id()), Error,
              "[backward] the loss depends on no trainable parameter, or was recorded under no_grad");
  return tape;
}

/// Per value, whether it is a target or depends on one.
std::vector<bool> computed_from(const StepGraph& graph, std::span<const ValueId> targets) {
  std::vector<bool> from(graph.value_count());
  const auto is_from = [&](ValueId value) { return from[value]; };
  for (const ValueId target : targets) from[target] = true;
  for (const Node& node : graph.nodes()) {
    if (std::ranges::none_of(graph.inputs(node), is_from)) continue;
    for (int i = 0; i < node.output_count; ++i) {
      const ValueId output = node.first_output + i;
      if (graph.value(output).previous == kNoValue) from[output] = true;
    }
  }
  return from;
}

void backward_to(Tape& tape, ValueId loss, std::span<const ValueId> targets) {
  std::vector<bool> needed = computed_from(tape.graph(), targets);
  BRAID_CHECK(needed[loss], Error, "[backward] the loss depends on none of the tensors whose gradients are wanted");
  tape.backward(loss, std::move(needed));
}

}  // namespace

void Tape::backward(ValueId loss, std::vector<bool> needed) {
  const Guard guard(*this);
  Transaction transaction(*this);
  BackwardPass(*this, std::move(needed)).run(loss);
  transaction.commit();
  differentiated_ = true;
}

void backward(const Tensor& loss) {
  Tape& tape = checked_tape(loss);
  tape.backward(loss.id(), {});
}

void backward(const Tensor& loss, std::span<const Tensor> tensors) {
  Tape& tape = checked_tape(loss);
  std::vector<ValueId> targets;
  for (const Tensor& tensor : tensors) {
    BRAID_CHECK(&tensor.tape() == &tape, Error, "[backward] the loss and a tensor belong to different sessions");
    BRAID_CHECK(tape.requires_gradient(tensor.id()), Error, "[backward] a tensor of shape ", tensor.shape(),
                " requires no gradient: call require_gradient() on an input, and set `trainable` of a parameter");
    targets.push_back(tensor.id());
  }
  backward_to(tape, loss.id(), targets);
}

void backward(const Tensor& loss, std::span<Parameter* const> parameters) {
  Tape& tape = checked_tape(loss);
  check_not_null("backward", parameters);
  std::vector<bool> wanted(tape.context().parameters().size());
  for (const Parameter* parameter : parameters) {
    BRAID_CHECK(tape.context().owns(*parameter), Error, "[backward] the parameter '", parameter->name(),
                "' belongs to another session");
    wanted[parameter->slot()] = parameter->trainable;
    if (const Parameter* copy = parameter->rounded()) {
      wanted[copy->slot()] = parameter->trainable;
    }
  }
  std::vector<ValueId> targets;
  for (ValueId id = 0; id < tape.graph().value_count(); ++id) {
    const Value& value = tape.graph().value(id);
    if (value.slot >= 0 && value.root == id && wanted[value.slot]) targets.push_back(id);
  }
  backward_to(tape, loss.id(), targets);
}

Tensor gradient(const Parameter& parameter) {
  Tape& tape = Tape::current();
  const ValueId value = tape.gradient(parameter);
  BRAID_CHECK(value != kNoValue, Error, "[gradient] '", parameter.name(),
              "' has no gradient: ", tape.why_no_gradient(parameter));
  return tape.tensor(value);
}

Tensor gradient(const Tensor& tensor) {
  Tape& tape = tensor.tape();
  const Value& of = tape.graph().value(tensor.id());
  if (of.slot >= 0 && of.root == tensor.id()) {
    const Parameter& parameter = tape.context().parameter(of.slot);
    const Tape::Guard guard(tape);
    return gradient(parameter.original() != nullptr ? *parameter.original() : parameter);
  }
  const ValueId value = tape.gradient(tensor.id());
  BRAID_CHECK(value != kNoValue, Error, "[gradient] the tensor of shape ", tensor.shape(), " has no gradient: ",
              tape.requires_gradient(tensor.id())
                  ? "call backward() for a loss that depends on it first"
                  : "it requires none: call require_gradient() on an input before its first use");
  return tape.tensor(value);
}

bool has_gradient(const Parameter& parameter) { return Tape::current().gradient(parameter) != kNoValue; }

}  // namespace braid
