#pragma once
// A module is a piece of a model: it owns its children, names its parameters after its place in the model, and records
// its ops when called.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/functions.h"

namespace braid {

/// The logits of a classifier, and how much its loss counts in training.
struct Head {
  Tensor logits;
  double weight = 1;
};

/// Σ weight·cross_entropy(logits, labels), from the first head to the last → scalar. A single head of weight 1 gives
/// its cross entropy and adds no node. Throws Error if there is no head.
Tensor training_loss(std::span<const Head> heads, const Tensor& labels, double label_smoothing = 0);

class Module {
 public:
  /// Named after the scope it is made in, as "layer1.0.conv1"; the outermost module has no name.
  explicit Module(Context& context);
  /// Releases the module's tensors. Must happen before the context is destroyed, and not between recording a step and
  /// running it.
  virtual ~Module() { context_.release(tensors_); }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Records the ops on the current step and returns the result.
  virtual Tensor forward(const Tensor& x) = 0;
  /// The same; the tape marks the nodes as this module's.
  Tensor operator()(const Tensor& x);
  /// The outputs used in training: the result, and in training mode those of auxiliary classifiers if there are any.
  virtual std::vector<Head> heads(const Tensor& x) { return {{(*this)(x)}}; }

  /// Trained tensors of this module and its children, in order of creation.
  std::vector<Parameter*> parameters() const { return collect(ValueKind::parameter); }
  /// State such as running statistics, likewise.
  std::vector<Parameter*> states() const { return collect(ValueKind::state); }
  /// All that the trained model consists of: parameters, then states.
  std::vector<Parameter*> tensors() const;
  /// This module and all that it is made of, in order of creation.
  std::vector<Module*> modules();
  /// Number of trained elements.
  std::int64_t parameter_count() const;

  /// Training mode (the default) or evaluation mode, for this module and its children.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  Context& context() const { return context_; }
  const std::string& name() const { return name_; }

 protected:
  /// Makes a child; its parameters are named "name.…". The module owns it. Also after the module's own construction,
  /// as long as no scope lives but those that the module is in.
  template <class Child, class... Arguments>
  Child& add(std::string_view name, Arguments&&... arguments) {
    const Context::Scope scope(context_, path_of(name));
    auto child = std::make_unique<Child>(context_, std::forward<Arguments>(arguments)...);
    Child& reference = *child;
    children_.push_back(std::move(child));
    return reference;
  }
  /// Makes a parameter or state of this module.
  Parameter& add_tensor(std::string_view name, const Shape& shape, ValueKind kind = ValueKind::parameter);

 private:
  std::vector<Parameter*> collect(ValueKind kind) const;
  /// The name of a child within the scopes that live now.
  std::string path_of(std::string_view child) const;

  Context& context_;
  std::string name_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<Parameter*> tensors_;
  bool training_ = true;
};

/// Sets training or evaluation mode for its lifetime.
class ModuleMode {
 public:
  ModuleMode(Module& model, bool training) : model_(model), before_(model.training()) { model.train(training); }
  ~ModuleMode() { model_.train(before_); }
  ModuleMode(const ModuleMode&) = delete;
  ModuleMode& operator=(const ModuleMode&) = delete;

 private:
  Module& model_;
  bool before_;
};

}  // namespace braid
