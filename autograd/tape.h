#pragma once
// The tape of one step: the step graph, and what differentiation needs beside it. Recording appends to flat arrays; the
// structural hash rolls along, so an unchanged step finds its plan at once.

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/tensor.h"
#include "core/step_graph.h"

namespace braid {

/// What Tensor::fetch() asked for: the elements, or why they will never come.
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
 public:
  explicit Tape(Context& context) : context_(context) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// The tape on which this thread records new inputs and parameters. Throws Error if there is none.
  static Tape& current();
  /// While it lives, the tape is current in this thread.
  class Guard {
   public:
    explicit Guard(Tape& tape);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Tape& tape_;
  };

  /// While it lives, new nodes count as those of the named layer. The name must live as long as the step.
  class Layer {
   public:
    Layer(Tape& tape, const std::string& name) : tape_(tape), outer_(std::exchange(tape.layer_, &name)) {}
    ~Layer() { tape_.layer_ = outer_; }
    Layer(const Layer&) = delete;
    Layer& operator=(const Layer&) = delete;

   private:
    Tape& tape_;
    const std::string* outer_;
  };
  /// The layer that recorded a node, or whose gradient the node is part of; empty if there is none.
  std::string_view layer(NodeId node) const;

  /// Forgets everything recorded; tensors recorded before become stale.
  void start_step(ValueReader* reader);
  /// From here on nothing can be recorded: the step runs.
  void close() { closed_ = true; }
  /// From here on, tensors of this step cannot be read any more.
  void end_step() { reader_ = nullptr; }

  Context& context() const { return context_; }
  const StepGraph& graph() const { return graph_; }
  ValueReader* reader() const { return reader_; }
  /// Counts the steps of this tape, to detect stale tensors.
  std::uint32_t step() const { return step_; }

  ValueId record_input(const Array& array);
  /// The newest version of a parameter or state.
  ValueId record_parameter(Parameter& parameter);
  /// Applies an op; returns the first output, the others follow.
  ValueId record(OpPtr op, std::span<const ValueId> inputs);
  /// The value as another floating type. Recorded once in a step however often it is requested. A parameter has a copy
  /// in f16 or bf16 that optimizers update with it (Context::rounded); then nothing is recorded.
  ValueId record_cast(ValueId value, DType dtype);
  /// The number of the step as an i32 scalar input, of the random state in force (core/context.h).
  ValueId step_number();
  void keep(ValueId value);

  /// What the host must provide before the step runs.
  std::span<const std::pair<ValueId, Array>> inputs() const { return inputs_; }

  bool requires_gradient(ValueId value) const { return requires_gradient_[static_cast<std::size_t>(value)]; }
  /// Gradient with respect to a parameter after backward(); kNoValue if it has none, or if the parameter has been
  /// updated since. It is f16 or bf16 if the step computed with the parameter's copy of that type.
  ValueId gradient(const Parameter& parameter) const;

 private:
  friend class NoGrad;
  friend class BackwardPass;
  ValueId record(OpPtr op, std::span<const ValueId> inputs, ValueKind kind);
  /// The newest version of a parameter's copy, if the value is the parameter's newest version and there may be one.
  ValueId rounded_parameter(ValueId value, DType dtype);
  /// The parameter's index. Throws Error if it is another session's, or released.
  std::size_t slot_of(const Parameter& parameter) const;
  void check_open() const;
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

  Context& context_;
  StepGraph graph_;
  ValueReader* reader_ = nullptr;
  std::uint32_t step_ = 0;
  bool closed_ = false;
  bool grad_enabled_ = true;
  const std::string* layer_ = nullptr;
  std::vector<const std::string*> layers_;  // per node
  std::vector<bool> requires_gradient_;     // per value
  std::vector<ValueId> casts_;              // per value, as far as any was cast: its last cast
  std::vector<ValueId> newest_;             // per slot: newest version in this step
  std::vector<Gradient> gradient_;          // per slot
  std::vector<StepNumber> step_numbers_;
  std::vector<std::pair<ValueId, Array>> inputs_;
};

/// While it lives, ops on the current tape record no gradient.
class NoGrad {
 public:
  NoGrad() : tape_(Tape::current()), previous_(std::exchange(tape_.grad_enabled_, false)) {}
  ~NoGrad() { tape_.grad_enabled_ = previous_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Tape& tape_;
  bool previous_;
};

/// Records the gradients of a scalar loss with respect to all parameters it depends on. Contributions to one gradient
/// are added in a fixed order. Called for several losses, the gradients of shared parameters add up. Throws ShapeError
/// if the loss is not a single element, Error if it depends on no trainable parameter.
void backward(const Tensor& loss);

}  // namespace braid
