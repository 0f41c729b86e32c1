#pragma once
// The tape of one step: the step graph, and what differentiation needs in addition. Recording appends to flat arrays
// and updates the structural hash, so an unchanged step finds its plan at once.

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/tensor.h"
#include "core/graph/step_graph.h"

namespace braid {

/// What Tensor::fetch() asked for: the elements, or why they will never arrive.
struct Delivery {
  Array array;
  std::exception_ptr fault;
  bool arrived = false;
  std::function<void()> wait;  ///< until they have arrived, or there is a fault
};

/// Brings values back to the host. Implemented by the step that runs the tape.
class ValueReader {
 public:
  virtual ~ValueReader() = default;
  virtual Array read_value(ValueId value) = 0;
  virtual std::shared_ptr<Delivery> fetch_value(ValueId value) = 0;
};

class Tape {
  struct Mark;

 public:
  explicit Tape(Context& context);
  /// Tensors that outlive it throw Error when used.
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// The tape on which this thread records new inputs and parameters. Throws Error if there is none.
  static Tape& current();
  /// While it lives, the tape is current in this thread.
  class Guard {
   public:
    [[nodiscard]] explicit Guard(Tape& tape);
    Guard(Guard&& other) noexcept;
    ~Guard();
    Guard& operator=(const Guard&) = delete;

   private:
    TapeHandle* handle_;  // null once moved from
    std::uint32_t step_;
  };

  /// While it lives, new nodes count as those of the named layer.
  class Layer {
   public:
    [[nodiscard]] Layer(Tape& tape, const std::string& name)
        : tape_(tape), outer_(std::exchange(tape.layer_, &*tape.layer_names_.insert(name).first)) {}
    ~Layer() { tape_.layer_ = outer_; }
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

   private:
    Tape& tape_;
    const std::string* outer_;
  };
  /// While it lives, nodes are recorded for this stage of a pipeline, whatever their layer and inputs are.
  class AtStage {
   public:
    [[nodiscard]] AtStage(Tape& tape, int stage)
        : tape_(tape), outer_(std::exchange(tape.stage_, static_cast<std::int16_t>(stage))) {}
    ~AtStage() { tape_.stage_ = outer_; }
    AtStage(const AtStage&) = delete;
    AtStage& operator=(const AtStage&) = delete;

   private:
    Tape& tape_;
    const std::int16_t outer_;
  };
  /// The layer that recorded a node, or whose gradient the node is part of; empty if there is none.
  const std::string& layer(NodeId node) const;
  /// Whether nodes of the current layer that read this value are divided along height or width: as the strategy says of
  /// the layer, else as the value is.
  bool divides_images(ValueId read) const;

  /// Forgets everything recorded; tensors recorded before become stale.
  void start_step(ValueReader* reader);
  /// Sets the reader of this step's tensors; null if they cannot be read any more.
  void set_reader(ValueReader* reader) { reader_ = reader; }
  /// Ends recording: the step runs.
  void close() { closed_ = true; }
  /// Calls that undo what recording a step has changed on the host, the last one first.
  class Undo {
   public:
    void add(std::function<void()> call) { calls_.push_back(std::move(call)); }
    bool empty() const { return calls_.empty(); }
    void operator()();

   private:
    std::vector<std::function<void()>> calls_;
  };
  /// The undo for a step that never runs, or fails.
  Undo& undo() { return undo_; }
  bool closed() const { return closed_; }

  Context& context() const { return context_; }
  const StepGraph& graph() const { return graph_; }
  ValueReader* reader() const { return reader_; }
  /// A value of this step as a tensor. Throws Error if there is no such value.
  Tensor tensor(ValueId value) const;

  /// Until commit(), what is recorded while it lives is undone at its end: for calls that change nothing if they throw.
  class Transaction {
   public:
    [[nodiscard]] explicit Transaction(Tape& tape);
    ~Transaction();
    Transaction(const Transaction&) = delete;
    Transaction& operator=(const Transaction&) = delete;
    void commit() { tape_ = nullptr; }

   private:
    Tape* tape_;  // null once committed
    std::unique_ptr<Mark> before_;
  };

  /// If it is split, the array has the rows of this rank, and the value those of all ranks.
  ValueId record_input(const Array& array, Layout layout = Layout::replicated);
  /// The newest version of a parameter or state.
  ValueId record_parameter(Parameter& parameter);
  /// Applies an op; returns the first output, the others follow.
  ValueId record(OpPtr op, std::span<const ValueId> inputs, ValueKind kind = ValueKind::activation);
  /// The value as another floating type. Recorded once in a step however often it is requested. A parameter has a copy
  /// in f16 or bf16 that optimizers update with it (Context::rounded); then nothing is recorded.
  ValueId record_cast(ValueId value, DType dtype);
  /// The number of the step as an i32 scalar input, of the random state in force (core/graph/context.h).
  ValueId step_number();
  void keep(ValueId value);
  /// Marks the activations recorded since value `first`, without `result`, to be recomputed in the backward pass.
  void recompute_since(ValueId first, ValueId result);

  /// What the host must provide before the step runs.
  std::span<const std::pair<ValueId, Array>> inputs() const { return inputs_; }

  bool requires_gradient(ValueId value) const { return differentiation_[index(value)] != Differentiation::none; }
  /// See Tensor::require_gradient.
  void require_gradient(ValueId value);
  /// Gradient with respect to a parameter after backward(); kNoValue if it has none, or if the parameter has been
  /// updated since. It is f16 or bf16 if the step computed with the parameter's copy of that type.
  ValueId gradient(const Parameter& parameter) const;
  /// Gradient with respect to an input or an activation after backward(), summed over all losses; kNoValue if
  /// it has none.
  ValueId gradient(ValueId value);
  /// Records the gradients of a loss with respect to the needed values; empty: to all that require one.
  void backward(ValueId loss, std::vector<bool> needed);
  /// Clears a gradient: what a later backward() computes is not added to it.
  void forget_gradient(const Parameter& parameter) { set_gradient(parameter, kNoValue, newest_[slot_of(parameter)]); }
  /// Why gradient(parameter) is kNoValue.
  std::string why_no_gradient(const Parameter& parameter) const;

 private:
  friend class NoGrad;
  friend class BackwardPass;

  /// Whether gradients with respect to a value are computed, and whether they flow on to what it was computed from.
  enum class Differentiation : std::uint8_t { none, leaf, inner };

  static std::size_t index(ValueId value) { return static_cast<std::size_t>(value); }
  /// The newest version of a parameter's copy, if the value is the parameter's newest version and there may be one.
  ValueId rounded_parameter(ValueId value, DType dtype);
  /// The parameter's index. Throws Error if it is another session's, or released.
  std::size_t slot_of(const Parameter& parameter) const;
  void check_open() const;
  Shape of_all_ranks(const Shape& own) const;
  std::int16_t stage_of_layer(const std::string& layer);
  void assign_stage(NodeId node);
  void set_gradient(const Parameter& parameter, ValueId gradient, ValueId of);

  static constexpr ValueId kNotYet = kNoValue;
  struct Gradient {
    ValueId value = kNoValue;
    ValueId of = kNoValue;  // the version of the parameter
  };
  struct StepNumber {
    const RandomState* state;
    std::int32_t step;
    ValueId value;
  };
  /// The state of the recording before a call that may fail.
  struct Mark {
    StepGraph::Mark graph;
    std::size_t inputs, step_numbers, value_gradients;
    std::vector<ValueId> newest;
    std::vector<Gradient> gradient;
    std::vector<ValueId> casts;
  };
  Mark mark() const;
  void return_to(Mark mark);

  Context& context_;
  StepGraph graph_;
  TapeHandle* handle_;
  ValueReader* reader_ = nullptr;
  bool closed_ = false;
  bool grad_enabled_ = true;
  const std::string* layer_ = nullptr;
  std::int16_t stage_ = Parameter::kNoStage;                        // AtStage
  std::int16_t last_stage_ = 0;                                     // the last that a layer of this step is of
  std::unordered_map<std::string, std::int16_t> stages_of_layers_;  // all steps'
  std::unordered_set<std::string> layer_names_;   // all steps': a model may be destroyed before its step is examined
  std::vector<const std::string*> layers_;        // per node
  std::vector<Differentiation> differentiation_;  // per value
  std::vector<ValueId> casts_;                    // per value, as far as any was cast: its last cast
  std::vector<ValueId> newest_;                   // per slot: newest version in this step
  std::vector<Gradient> gradient_;                // per slot
  std::vector<std::pair<ValueId, ValueId>> value_gradients_;  // (input or activation, its gradient), of every loss
  bool differentiated_ = false;                               // by a backward() of this step
  std::vector<StepNumber> step_numbers_;
  std::vector<std::pair<ValueId, Array>> inputs_;
  Undo undo_;
};

/// While it lives, ops on the current tape record no gradient.
class NoGrad {
 public:
  [[nodiscard]] explicit NoGrad(Tape& tape = Tape::current())
      : handle_(tape.handle_), step_(handle_->step), previous_(std::exchange(tape.grad_enabled_, false)) {}
  ~NoGrad() {
    if (handle_->step == step_) handle_->tape->grad_enabled_ = previous_;
  }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  const TapeHandle* handle_;  // the step, or the session, may be destroyed first
  std::uint32_t step_;
  bool previous_;
};

/// Records the gradients of a scalar loss with respect to everything that it depends on and that requires one:
/// trainable parameters, and inputs with Tensor::require_gradient. Contributions to one gradient are added in a fixed
/// order. Called for several losses, the gradients of shared parameters add up. A loss may contain gradients of an
/// earlier backward(), as a penalty of their norm does: they are differentiated too, with respect to the same. Throws
/// ShapeError if the loss is not a single element, Error if it depends on nothing that requires a gradient; then
/// nothing is recorded.
void backward(const Tensor& loss);
/// The same, with respect to these parameters alone: nothing is computed that only others would need. Parameters that
/// the loss does not depend on get no gradient; Error if it depends on none of them.
void backward(const Tensor& loss, std::span<Parameter* const> parameters);
/// The same, with respect to inputs, activations or parameters.
void backward(const Tensor& loss, std::span<const Tensor> tensors);
inline void backward(const Tensor& loss, std::initializer_list<Tensor> tensors) {
  backward(loss, std::span(tensors.begin(), tensors.size()));
}

/// The gradient of a parameter that is to be read, or used in a custom update: summed over all losses whose
/// backward() was called in this step. Throws Error with the reason if there is none: no backward() yet, a loss that
/// does not depend on it, or an update since.
Tensor gradient(const Parameter& parameter);
/// The gradient with respect to an input, activation or parameter, likewise.
Tensor gradient(const Tensor& tensor);
/// Whether gradient() would return one.
bool has_gradient(const Parameter& parameter);

}  // namespace braid
