// Reverse-mode differentiation over the tape. Gradient rules emit ordinary nodes, so the backward pass is scheduled
// like everything else.

#include "autograd/tape.h"
#include "ops/concat.h"
#include "ops/elementwise.h"

namespace braid {

class BackwardPass final : public GradientContext {
 public:
  explicit BackwardPass(Tape& tape) : tape_(tape), last_(tape.graph().node_count()) {
    contributions_.assign(static_cast<std::size_t>(graph().value_count()), kNone);
  }

  void run(ValueId loss) {
    const ValueDesc desc = graph().value(loss).desc;
    contribute(loss, emit(std::make_shared<ops::Fill>(desc, 1.0), {}));
    // Ends early where everything that is left was recorded for other losses.
    for (NodeId id = last_ - 1; id >= 0 && pending_ > 0; --id) {
      tape_.layer_ = tape_.layers_[static_cast<std::size_t>(id)];
      differentiate(id);
    }
    tape_.layer_ = nullptr;
    finish_parameters();
  }

  int input_count() const override { return node_.input_count; }
  ValueId input(int i) const override { return graph().inputs(node_)[static_cast<std::size_t>(i)]; }
  ValueId output(int i) const override { return node_.first_output + i; }
  ValueDesc desc(ValueId value) const override { return graph().value(value).desc; }
  ValueId output_gradient(int i) const override { return output_gradients_[static_cast<std::size_t>(i)]; }
  bool needs(int i) const override { return tape_.requires_gradient(input(i)); }
  using GradientContext::emit;
  ValueId emit(OpPtr op, std::span<const ValueId> inputs) override {
    return tape_.record(std::move(op), inputs, ValueKind::gradient);
  }
  void set_input_gradient(int i, ValueId gradient) override { contribute(input(i), gradient); }
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

  /// Whether a node is to be differentiated for the value. A new version of a parameter is a leaf, as the first one is:
  /// gradients do not flow through the update.
  bool is_inner(ValueId value) const {
    return graph().value(value).producer != kNoNode && graph().value(value).previous == kNoValue;
  }

  void contribute(ValueId value, ValueId gradient, std::int64_t first_channel = kWhole) {
    std::int32_t* link = &contributions_[static_cast<std::size_t>(value)];
    if (*link == kNone && is_inner(value)) ++pending_;
    while (*link != kNone) link = &list_[static_cast<std::size_t>(*link)].next;
    *link = static_cast<std::int32_t>(list_.size());
    list_.push_back({gradient, first_channel, kNone});
  }

  /// The sum of all contributions, added in order of arrival; kNoValue if there are none. Slices are taken out of their
  /// values only here, because many of them can be added without copying each.
  ValueId gradient_of(ValueId value) {
    std::vector<ValueId>& terms = terms_;
    terms.clear();
    std::vector<std::int64_t>& begins = begins_;
    begins.clear();
    bool slices = false;
    for (std::int32_t i = contributions_[static_cast<std::size_t>(value)]; i != kNone;
         i = list_[static_cast<std::size_t>(i)].next) {
      const Contribution& contribution = list_[static_cast<std::size_t>(i)];
      terms.push_back(contribution.gradient);
      begins.push_back(std::max<std::int64_t>(0, contribution.first_channel));
      slices = slices || contribution.first_channel != kWhole;
    }
    if (slices) return sum_of_slices(terms, begins, graph().value(value).desc.shape);
    if (terms.size() <= 1) return terms.empty() ? kNoValue : terms[0];
    return emit(std::make_shared<ops::Sum>(), terms);
  }

  ValueId sum_of_slices(const std::vector<ValueId>& terms, const std::vector<std::int64_t>& begins,
                        const Shape& shape) {
    const std::int64_t count = shape[shape.rank() - 1];
    if (terms.size() == 1) return emit(std::make_shared<ops::ChannelSlice>(begins[0], count), terms);
    return emit(std::make_shared<ops::SliceSum>(begins, count), terms);
  }

  void differentiate(NodeId id) {
    // A copy: recording may move the graph's arrays.
    node_ = graph().node(id);
    bool wanted = false;
    output_gradients_.clear();
    for (int i = 0; i < node_.output_count; ++i) {
      const ValueId out = output(i);
      if (is_inner(out) && contributions_[static_cast<std::size_t>(out)] != kNone) --pending_;
      const bool inner = tape_.requires_gradient(out) && is_inner(out);
      output_gradients_.push_back(inner ? gradient_of(out) : kNoValue);
      wanted = wanted || output_gradients_.back() != kNoValue;
    }
    if (wanted) node_.op->gradient(*this);
  }

  /// Gradients of parameters, added to those of an earlier backward pass if there was one.
  void finish_parameters() {
    for (std::size_t i = 0; i < contributions_.size(); ++i) {
      const Value value = graph().value(static_cast<ValueId>(i));
      const bool leaf = value.slot >= 0 && value.root == static_cast<ValueId>(i);
      if (!leaf || contributions_[i] == kNone) continue;
      Parameter& leaf_parameter = tape_.context().parameter(value.slot);
      Parameter& parameter = leaf_parameter.original() != nullptr ? *leaf_parameter.original() : leaf_parameter;
      BRAID_CHECK(!graph().is_overwritten(static_cast<ValueId>(i)), Error, "[backward] the loss was computed before '",
                  parameter.name(), "' was updated in this step: call backward() before the update");
      const ValueId of = tape_.record_parameter(parameter);
      ValueId gradient = gradient_of(static_cast<ValueId>(i)), earlier = tape_.gradient(parameter);
      if (earlier != kNoValue) {
        const DType dtype = desc(earlier).dtype == desc(gradient).dtype ? desc(gradient).dtype : parameter.desc().dtype;
        gradient = emit(std::make_shared<ops::Sum>(), {as(earlier, dtype), as(gradient, dtype)});
      }
      tape_.set_gradient(parameter, gradient, of);
    }
  }
  ValueId as(ValueId value, DType dtype) {
    return desc(value).dtype == dtype ? value : emit(std::make_shared<ops::Cast>(dtype), {value});
  }

  Tape& tape_;
  NodeId last_;
  Node node_;
  std::vector<std::int32_t> contributions_;  // per value: head of its list
  std::vector<Contribution> list_;
  std::int64_t pending_ = 0;  // values whose gradient is not complete yet
  std::vector<ValueId> output_gradients_, terms_;
  std::vector<std::int64_t> begins_;
};

void backward(const Tensor& loss) {
  BRAID_CHECK(loss.shape().size() == 1, ShapeError, "[backward] expected a loss of one element, got shape ",
              loss.shape());
  Tape& tape = loss.tape();
  BRAID_CHECK(tape.requires_gradient(loss.id()), Error,
              "[backward] the loss depends on no trainable parameter, or was recorded under no_grad");
  const Tape::Guard guard(tape);
  const NoGrad no_grad;
  BackwardPass(tape).run(loss.id());
}

}  // namespace braid
