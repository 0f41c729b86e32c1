#pragma once
// A module is a piece of a model: it owns its children, names its parameters after its place in the model, and records
// its ops when called.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/functions.h"

namespace braid {

/// The logits of a classifier, and how much its loss counts in training.
struct Head {
  Tensor logits;
  double weight = 1;
};

/// How training judges logits [N,...,K] against labels i32 [N,...], or against probabilities of the classes.
struct ClassLoss {
  enum class Kind : std::uint8_t {
    cross_entropy,
    focal,                 ///< times (1 − p)^gamma, p being the class's probability (Lin et al., 2017)
    binary_cross_entropy,  ///< of each class by itself, the mean over all of them, as in timm
  };
  Kind kind = Kind::cross_entropy;
  double label_smoothing = 0;
  double gamma = 2;

  /// The mean over the samples.
  Tensor operator()(const Tensor& logits, const Tensor& truth) const;
};

/// Σ weight·loss(logits, labels), from the first head to the last → scalar. A single head of weight 1 gives its loss
/// and adds no node. Throws Error if there is no head.
Tensor training_loss(std::span<const Head> heads, const Tensor& labels, const ClassLoss& loss = {});

/// A loss that a training step minimizes, and the parameters that it trains; an empty list: all that it depends on.
struct Objective {
  Tensor loss;
  std::vector<Parameter*> parameters = {};
};

/// Records the gradients of each objective with respect to its parameters, added up. Leaves out an objective whose
/// parameters are all frozen.
void backward(std::span<const Objective> objectives);

/// The objectives that a training step on labelled images minimizes, and the logits and labels whose accuracy it
/// reports.
struct TrainingStep {
  std::vector<Objective> objectives;
  Tensor logits, labels;
};

class Module : AddsByName<Module> {
 public:
  /// Named after the scope it is made in, as "layer1.0.conv1"; the outermost module has no name.
  explicit Module(Context& context);
  /// Releases the module's tensors. Must not happen between recording a step and running it. A module whose session has
  /// been destroyed throws Error when called.
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Records the ops on the current step and returns the result.
  /// One of the two is to be overridden: that for one tensor in and out, or that for several.
  virtual Tensor forward(const Tensor& x);
  virtual std::vector<Tensor> forward_all(std::span<const Tensor> inputs);
  /// The same; the tape marks the nodes as this module's.
  Tensor operator()(const Tensor& x);
  std::vector<Tensor> operator()(std::span<const Tensor> inputs);
  std::vector<Tensor> operator()(std::initializer_list<Tensor> inputs) {
    return (*this)(std::span(inputs.begin(), inputs.size()));
  }
  /// The outputs used in training: the result, and in training mode those of auxiliary classifiers if there are any.
  virtual std::vector<Head> heads(const Tensor& x) { return {{(*this)(x)}}; }
  /// Records what a step on these images is to minimize: by default the training_loss() of the heads against `truth`,
  /// which is the labels, or probabilities of classes. Networks with another objective override it.
  virtual TrainingStep training_step(const Tensor& x, const Tensor& labels, const Tensor& truth,
                                     const ClassLoss& loss = {});

  /// Trained tensors of this module and its children, in order of creation.
  std::vector<Parameter*> parameters() const { return collect(ValueKind::parameter); }
  /// State such as running statistics, likewise.
  std::vector<Parameter*> states() const { return collect(ValueKind::state); }
  /// All that the trained model consists of: parameters, then states.
  std::vector<Parameter*> tensors() const;
  /// The module and all modules in it, in order of creation.
  std::vector<Module*> modules();
  /// Number of trained elements.
  std::int64_t parameter_count() const;

  /// Training mode (the default) or evaluation mode, for this module and its children.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Throws Error if the session has been destroyed.
  Context& context() const { return tensors_.context(); }
  const std::string& name() const { return name_; }

 protected:
  /// Makes a child; its parameters are named "name.…". The module owns it. Also after the module's own construction,
  /// as long as no scope lives but those that the module is in. A braced list among the arguments is the child's
  /// Options: add<ConvLayer>("conv", 3, 16, 3, {.padding = 1}).
  using AddsByName::add;
  /// Makes a parameter or state of this module.
  Parameter& add_tensor(std::string_view name, const Shape& shape, ValueKind kind = ValueKind::parameter,
                        DType dtype = DType::f32) {
    return tensors_.add(path_of(name), {dtype, shape}, kind);
  }

 private:
  friend class AddsByName<Module>;
  template <class Child, class... Arguments>
  Child& make(std::string_view name, Arguments&&... arguments) {
    const Context::Scope scope(context(), path_of(name));
    auto child = std::make_unique<Child>(context(), std::forward<Arguments>(arguments)...);
    Child& reference = *child;
    children_.push_back(std::move(child));
    return reference;
  }
  std::vector<Parameter*> collect(ValueKind kind) const;
  /// The name of a child within the scopes that live now.
  std::string path_of(std::string_view child) const;

  OwnedTensors tensors_;
  std::string name_;
  std::vector<std::unique_ptr<Module>> children_;
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
