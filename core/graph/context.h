#pragma once
// Everything a model factory needs: the device, the seed, and the persistent tensors (parameters and state).

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/adds_by_name.h"
#include "core/base/random.h"
#include "core/comm/parallel_options.h"
#include "core/device/backend.h"
#include "core/graph/array.h"
#include "core/graph/parameter.h"

namespace braid {

/// What random behaviour depends on. A context has one; models that train together have one each, so that each behaves
/// as if it were alone.
struct RandomState {
  std::uint64_t seed = 1;
  std::uint32_t layers = 0;  ///< layers made so far that draw random numbers, such as dropout
  std::int32_t step = 0;     ///< steps taken
};

/// Throws Error if one of the parameters that a function was given is a null pointer.
void check_not_null(std::string_view function, std::span<Parameter* const> parameters);

class Context : public AddsByName<Context> {
 public:
  Context(std::unique_ptr<Backend> backend, std::uint64_t seed, ParallelOptions parallel = {},
          bool draws_weights = true);
  /// Models and optimizers that outlive it may still be destroyed, and throw Error when used.
  virtual ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Backend& backend() const { return *backend_; }
  Device device() const { return backend_->device(); }
  /// The ranks that steps are divided over.
  const ParallelOptions& parallel() const { return parallel_; }
  /// Whether models draw their weights, which takes seconds for large ones. Else these are zero.
  bool draws_weights() const { return draws_weights_; }
  /// The random state in force.
  RandomState& random() const { return *random_; }

  /// A new persistent tensor, zero-filled, named within the current scopes. If ranks share tensors
  /// (ParallelOptions::zero), parameters are in pieces; those of layers divided along channels are split. States have
  /// the layouts given. Throws Error if there is one of that name, in the random state in force, or if the shards
  /// cannot have equal parts of a parameter that is split.
  Parameter& add(std::string_view name, const ValueDesc& desc, ValueKind kind, const Layouts& layouts = {});
  /// Makes a model that the context owns; the names of its tensors start with "name.". A braced list among the
  /// arguments is the model's Options. Where a function makes the model, it takes the place of the class:
  ///     auto& teacher = session.add<models::AlexNet>("teacher", {.classes = 10});
  ///     auto& student = session.add("student", models::resnet20, {.classes = 10});
  using AddsByName::add;
  template <class Model, class Options>
  Model& add(std::string_view name, Model (*factory)(Context&, const Options&), const Options& options = {}) {
    const Scope scope(*this, name);
    std::shared_ptr<Model> model(new Model(factory(*this, options)));
    models_.push_back(model);
    return *model;
  }
  /// Whether add() would refuse the name.
  bool has(std::string_view name) const { return names_.contains({random_, prefix_ + std::string(name)}); }
  /// Releases parameters: no step may use them again. Their memory is freed when the next step begins.
  void release(std::span<Parameter* const> parameters);
  /// All parameters that were ever added, released ones included; slots are not reused.
  std::span<Parameter* const> parameters() const { return parameters_; }
  /// Whether the parameter was made by this context.
  bool owns(const Parameter& parameter) const { return parameter.store_ == store_.get(); }
  Parameter& parameter(std::int32_t slot) const { return *parameters_[static_cast<std::size_t>(slot)]; }

  std::shared_ptr<const TensorStore> store() const { return store_; }

  /// Host access, in program order with the steps. All ranks must make the same calls for tensors that are not
  /// replicated. Throw Error if the parameter is another session's, or released, ShapeError if dtype or shape differ.
  Array read(const Parameter& parameter);
  void write(Parameter& parameter, const Array& value);
  /// Notes that a step changes the elements.
  void note_change(std::int32_t slot) { parameter(slot).version_ = Parameter::next_version(); }

  /// Sets the stage of a parameter, and of its copy or original, unless it has one (Parameter::stage).
  void assign(std::int32_t slot, std::int16_t stage) {
    Parameter& its = parameter(slot);
    if (its.stage_ != Parameter::kNoStage) return;
    its.stage_ = stage;
    if (its.original_ != nullptr) assign(its.original_->slot(), stage);
    if (its.rounded_ != nullptr) assign(its.rounded_->slot(), stage);
  }

  /// The copy of an f32 parameter in f16 or bf16, made by the host when first asked for. From then on, write() and the
  /// nodes that update the parameter write the copy too, so that no step has to cast it. Null if it has a copy in the
  /// other dtype already, or was once updated by a node that leaves copies out.
  Parameter* rounded(Parameter& parameter, DType dtype);
  /// Drops a parameter's copy for good: a node will update the parameter alone.
  void drop_rounded(Parameter& parameter);

  /// The generator for initialising a tensor: depends on the seed and the tensor's name alone, so that adding a layer
  /// does not change the initial weights of the others.
  Generator generator(std::string_view name) const;
  /// A number that identifies a layer that draws random numbers, such as dropout.
  std::uint32_t next_layer() { return random().layers++; }
  /// While it lives, another random state is in force: layers made then belong to it, and steps recorded then draw from
  /// it.
  class RandomScope {
   public:
    [[nodiscard]] RandomScope(Context& context, RandomState& state)
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
    [[nodiscard]] Scope(Context& context, std::string_view name);
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
  /// Frees the memory of released parameters, once no step is running. No step may be recorded meanwhile. Returns
  /// whether there were any.
  bool free_released();
  /// The state that is in force when no RandomScope lives.
  RandomState& own_random() { return own_random_; }

 private:
  friend class AddsByName<Context>;
  template <class Model, class... Arguments>
  Model& make(std::string_view name, Arguments&&... arguments) {
    const Scope scope(*this, name);
    auto model = std::make_shared<Model>(*this, std::forward<Arguments>(arguments)...);
    models_.push_back(model);
    return *model;
  }
  /// The ranks that have all of a tensor together, each an equal part.
  RankGroup holders(const Layouts& layouts) const;
  Layouts layouts_of(std::string_view name, const ValueDesc& desc) const;
  Parameter& make_tensor(std::string name, const ValueDesc& desc, ValueKind kind, RandomState* random,
                         const Layouts& layouts);
  void check_usable(const Parameter& parameter) const;
  void write_rounded(const Parameter& parameter, const Array& value);

  std::unique_ptr<Backend> backend_;
  const ParallelOptions parallel_;
  const bool draws_weights_;
  RandomState own_random_;
  RandomState* random_ = &own_random_;
  std::string prefix_;
  std::shared_ptr<TensorStore> store_;
  std::vector<Parameter*> parameters_;
  std::vector<Parameter*> released_;
  std::set<std::pair<const RandomState*, std::string>> names_;  // names of all that are not released
  std::vector<std::shared_ptr<void>> models_;                   // those that it owns
};

/// Persistent tensors that are released with their owner: those of a layer, the moments of an optimizer.
class OwnedTensors {
 public:
  explicit OwnedTensors(Context& context);
  /// Owns tensors made alongside a parameter, which share its context and its random state.
  explicit OwnedTensors(const Parameter& parameter);
  ~OwnedTensors();
  OwnedTensors(OwnedTensors&&) = default;
  OwnedTensors& operator=(OwnedTensors&&) = delete;

  /// Throws Error if the context has been destroyed.
  Context& context() const;
  /// Adds a tensor like Context::add.
  Parameter& add(std::string_view name, const ValueDesc& desc, ValueKind kind);
  /// The same; if there is a tensor of that name, appends a number to it, as for the moments of a second optimizer.
  Parameter& add_another(const std::string& name, const ValueDesc& desc, ValueKind kind, const Layouts& layouts = {});
  std::span<Parameter* const> all() const { return tensors_; }

 private:
  std::shared_ptr<const TensorStore> store_;
  RandomState* random_ = nullptr;  // null: the one in force
  std::vector<Parameter*> tensors_;
};

}  // namespace braid
