#pragma once
// All that a model factory needs: the device, the seed, and the persistent tensors (parameters and state).

#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "core/array.h"
#include "core/backend.h"
#include "core/random.h"
#include "core/step_graph.h"

namespace braid {

/// A tensor that outlives the step: a weight, a running statistic, a momentum buffer.
class Parameter {
 public:
  const std::string& name() const { return name_; }  ///< as "layer1.0.conv1.weight"
  const ValueDesc& desc() const { return desc_; }
  const Shape& shape() const { return desc_.shape; }
  ValueKind kind() const { return kind_; }     ///< parameter (trained) or state
  std::int32_t slot() const { return slot_; }  ///< its index in the context
  void* data() const { return buffer_.data(); }
  std::size_t bytes() const { return buffer_.bytes(); }  ///< 0 once released and freed
  std::uint64_t version() const { return version_; }     ///< counts the writes and the steps that change the elements
  bool released() const { return released_; }
  bool trainable = true;     ///< frozen parameters get no gradient
  bool weight_decay = true;  ///< whether optimizers decay it; by convention false for biases and batch norm

  /// Its copy in f16 or bf16, which layers compute with (Context::rounded); or null. The copy always follows it.
  Parameter* rounded() const { return rounded_; }
  /// The parameter that it is a copy of; null for all others.
  Parameter* original() const { return original_; }

 private:
  friend class Context;
  std::string name_;
  ValueDesc desc_;
  ValueKind kind_ = ValueKind::parameter;
  std::int32_t slot_ = -1;
  std::uint64_t version_ = 0;
  bool released_ = false;
  bool may_be_rounded_ = true;
  Parameter *rounded_ = nullptr, *original_ = nullptr;
  Buffer buffer_;
};

/// What random behaviour depends on. A context has one. Models that train together have one each, so that each behaves
/// as if it were alone.
struct RandomState {
  std::uint64_t seed = 1;
  std::uint32_t layers = 0;  ///< layers made so far that draw random numbers, such as dropout
  std::int32_t step = 0;     ///< steps taken
};

class Context {
 public:
  Context(std::unique_ptr<Backend> backend, std::uint64_t seed) : backend_(std::move(backend)), own_random_{seed} {}
  virtual ~Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend& backend() const { return *backend_; }
  Device device() const { return backend_->device(); }
  /// The random state in force.
  RandomState& random() const { return *random_; }

  /// A new persistent tensor, zero-filled, named within the current scopes.
  Parameter& add(std::string_view name, const ValueDesc& desc, ValueKind kind);
  /// Releases parameters: no step may use them again. Their memory is freed when the next step begins.
  void release(std::span<Parameter* const> parameters);
  /// All that were ever added, released ones included; slots are not reused.
  std::span<Parameter* const> parameters() const { return parameters_; }
  /// Whether the parameter was made by this context.
  bool owns(const Parameter& parameter) const {
    return static_cast<std::size_t>(parameter.slot()) < parameters_.size() &&
           &this->parameter(parameter.slot()) == &parameter;
  }
  Parameter& parameter(std::int32_t slot) const { return *parameters_[static_cast<std::size_t>(slot)]; }

  /// Host access, in program order with the steps. Throw ShapeError if dtype or shape differ.
  Array read(const Parameter& parameter);
  void write(Parameter& parameter, const Array& value);
  /// A step changes the elements.
  void note_change(std::int32_t slot) { ++parameter(slot).version_; }

  /// The copy of an f32 parameter in f16 or bf16, made by the host when first asked for. From then on, write() and the
  /// nodes that update the parameter write the copy too, so that no step has to cast it. Null if it has a copy in the
  /// other dtype already, or was once updated by a node that leaves copies out.
  Parameter* rounded(Parameter& parameter, DType dtype);
  /// Gives up a parameter's copy for good: a node will update the parameter alone.
  void drop_rounded(Parameter& parameter);

  /// The generator for initialising a tensor: depends on the seed and the tensor's name alone, so that adding a layer
  /// does not change the initial weights of the others.
  Generator generator(std::string_view name) const;
  /// A number that identifies a layer that draws random numbers, such as dropout.
  std::uint32_t next_layer() { return random().layers++; }
  /// While it lives, another random state is in force: layers made belong to it, and steps recorded draw from it.
  class RandomScope {
   public:
    RandomScope(Context& context, RandomState& state)
        : context_(context), outer_(std::exchange(context.random_, &state)) {}
    ~RandomScope() { context_.random_ = outer_; }
    RandomScope(const RandomScope&) = delete;
    RandomScope& operator=(const RandomScope&) = delete;

   private:
    Context& context_;
    RandomState* outer_;
  };

  /// The prefix of the names of new tensors: the current scopes, as "layer1.0.".
  const std::string& prefix() const { return prefix_; }
  /// While it lives, names of new tensors start with "name.".
  class Scope {
   public:
    Scope(Context& context, std::string_view name);
    ~Scope() { context_.prefix_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Context& context_;
    std::size_t length_;
  };

 protected:
  /// Waits until no step is running, so that the host may touch persistent tensors.
  virtual void synchronize() {}
  /// Frees the memory of released parameters, once no step is running. No step may be recorded meanwhile.
  void free_released();
  /// The state that is in force when no RandomScope lives.
  RandomState& own_random() { return own_random_; }

 private:
  void write_rounded(const Parameter& parameter, const Array& value);

  std::unique_ptr<Backend> backend_;
  RandomState own_random_;
  RandomState* random_ = &own_random_;
  std::string prefix_;
  std::deque<Parameter> storage_;
  std::vector<Parameter*> parameters_;
  std::vector<Parameter*> released_;
};

}  // namespace braid
