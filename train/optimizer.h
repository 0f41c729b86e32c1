#pragma once
// Optimizers record their updates as nodes of the step, so that an update can run as soon as its gradient is computed,
// concurrently with the rest of the backward pass.

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/tape.h"

namespace braid {

class LossScale;

/// Parameters share an update node until it has this many elements or parameters. That keeps the number of nodes small,
/// and still lets updates begin before the backward pass ends.
inline constexpr std::int64_t kBucketElements = std::int64_t{1} << 18;
inline constexpr std::size_t kBucketParameters = 32;

/// Records that tensor i becomes a · tensor i + b · value(i), or b · value(i) if a is 0 (ops/optimizer/blend.h).
void record_blends(Tape& tape, double a, double b, std::span<Parameter* const> tensors,
                   const std::function<ValueId(std::size_t)>& value);

/// Records the mean of a tensor of a floating type over the ranks (ParallelOptions::average_every).
Tensor mean_over_ranks(Parameter& tensor);
/// Records that every tensor of a floating type becomes its mean over the ranks.
void average_over_ranks(std::span<Parameter* const> tensors);

/// Parameters with options that differ from the optimizer's, as the dictionaries that torch.optim takes:
///     SGD sgd({{.parameters = net.features.parameters(), .lr = 0.01}, {.parameters = net.head.parameters()}},
///             {.lr = 0.1, .momentum = 0.9});
struct ParameterGroup {
  std::vector<Parameter*> parameters;
  std::optional<double> lr = {};            ///< Optimizer::set_lr changes it in proportion
  std::optional<double> weight_decay = {};  ///< decay of those whose weight_decay is set
};

/// What an optimizer updates: parameters, or groups of them.
struct ParameterGroups {
  ParameterGroups() = default;
  ParameterGroups(std::vector<Parameter*> parameters) : list{{std::move(parameters)}} {}  // NOLINT: implicit
  ParameterGroups(std::initializer_list<Parameter*> parameters) : ParameterGroups(std::vector(parameters)) {}
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}  // NOLINT: implicit
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : list(groups) {}
  std::vector<ParameterGroup> list;
};

/// Use it from one thread at a time. The parameters must be of one session; their updates throw Error once the session,
/// or their model, is destroyed.
class Optimizer {
 public:
  /// Releases the moments.
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Records that weight · gradient of every parameter that has one is added to its sum. Gradients are cleared: the
  /// next backward(), in this step or a later one, does not add to those already in a sum. The next step() updates by
  /// the sums in place of gradients, and new ones begin.
  void accumulate(double weight);
  /// Whether there are sums that no step() has used. Set it with the states of an optimizer that had some.
  bool accumulated() const { return progress_->accumulated; }
  void set_accumulated();
  /// Limits every element of the gradients to ±max_value, as torch.nn.utils.clip_grad_value_; 0: no limit. Throws Error
  /// unless finite and at least 0. Not for gradients of a scaled loss.
  void clip_value(double max_value);
  /// Limits the norm of all gradients together to max_norm, as torch.nn.utils.clip_grad_norm_; 0: no limit. Gradients
  /// whose norm is not finite change nothing. Throws Error unless finite and at least 0.
  void clip_norm(double max_norm);
  /// Records the update of every parameter that has a gradient on the current tape, in reverse order of creation, the
  /// order in which backward computes the gradients. Gradients of a scaled loss need its scale (train/loss_scale.h),
  /// the same one in every step. Throws Error if no parameter has a gradient, or if the current step is another
  /// session's; then nothing changes.
  void step(LossScale* scale = nullptr);
  double lr() const { return lr_; }
  /// The moments of the parameters, the sums of their gradients if it accumulates, and the gradients that shards keep
  /// (ParallelOptions); made if there are none yet. With them and the number of updates, another optimizer continues as
  /// this one would.
  std::vector<Parameter*> states(bool accumulates = false);
  std::int32_t updates() const { return progress_->updates; }
  void set_updates(std::int32_t updates) { progress_->updates = updates; }
  /// Sets the optimizer's rate, and those of groups in proportion. Takes effect from the next step; changes no plan.
  /// Throws Error unless finite and at least 0.
  void set_lr(double lr);

 protected:
  /// The differences between optimizers.
  struct Rule {
    /// The op of an update, by gradients of a scaled loss or not, and in f16 or bf16 or not.
    std::function<OpPtr(double weight_decay, bool scaled, bool rounded)> update;
    std::vector<std::string_view> moments = {};  ///< state per parameter, initially zero
    bool counts_steps = false;                   ///< the op reads the number of the update, from 1
  };
  /// The rate and the decay are those of groups without.
  Optimizer(const ParameterGroups& groups, double lr, double weight_decay, Rule rule);

 private:
  /// A parameter and its moments.
  struct Slot {
    Parameter* parameter;
    double lr_ratio;  ///< its learning rate over the optimizer's
    double weight_decay;
    std::vector<Parameter*> moments = {};
    Parameter* sum = nullptr;  ///< sum of gradients; null if it does not accumulate
    // One row for every shard [shards,...] (ParallelOptions).
    std::vector<Parameter*> delayed = {};  ///< gradients of the last steps, the newest first
    Parameter* residual = nullptr;         ///< the rest of what was compressed; null if nothing is
  };
  /// The progress of the recorded steps. A step that never runs, or fails, reverts its part.
  struct Progress {
    std::int32_t updates = 0;
    bool accumulated = false;
    std::vector<bool> summed;  // per slot: since the last update
  };
  struct Bucket {
    OpPtr op;
    ValueId lr = kNoValue;
    std::vector<std::pair<const Slot*, ValueId>> members;  // and their gradients
    std::int64_t elements = 0;
  };

  /// The current tape, if the parameters can be updated in its step.
  Tape& checked_tape() const;
  void add_moments();
  void add_sums();
  /// Adds the gradients that shards keep.
  void add_kept();
  std::size_t index(const Slot& slot) const { return static_cast<std::size_t>(&slot - slots_.data()); }
  bool summed(const Slot& slot) const { return progress_->summed[index(slot)]; }
  /// Undoes the next change of the progress if the step does not run. Call it before the change.
  void restore_unless_run(Tape& tape) const;
  /// The value that updates a parameter in the step that is being recorded, or kNoValue.
  ValueId gradient(Tape& tape, const Slot& slot) const;
  /// Replaces gradients that shards keep (ParallelOptions) by what they exchange: older ones, or compressed ones.
  void exchange(Tape& tape, std::span<const Slot* const> slots, std::span<ValueId> gradients) const;
  /// The values that an update reads in addition to the learning rate and the parameters' tensors.
  std::vector<ValueId> record_scalars(Tape& tape, LossScale* scale, std::span<const ValueId> gradients) const;
  void record(Tape& tape, std::span<const ValueId> scalars, Bucket& bucket) const;

  std::vector<Slot> slots_;  // in reverse order of creation
  double lr_;
  double max_norm_ = 0, max_value_ = 0;
  Rule rule_;
  std::optional<OwnedTensors> tensors_;  // moments and sums; none if there are no parameters
  std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
};

/// Stochastic gradient descent, as torch.optim.SGD with dampening 0.
class SGD final : public Optimizer {
 public:
  struct Options {
    double lr = 0.1;
    double momentum = 0;
    double weight_decay = 0;  ///< decay of parameters whose weight_decay is set
    bool nesterov = false;    ///< needs momentum
    bool decoupled = false;   ///< decay multiplies the parameter by 1 - lr·weight_decay and stays out of the momentum
  };
  /// Throws Error if an option is out of range.
  SGD(const ParameterGroups& parameters, const Options& options);
};

/// Adam (Kingma and Ba, 2015), as torch.optim.Adam.
class Adam : public Optimizer {
 public:
  struct Options {
    double lr = 1e-3;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0;
    bool decoupled = false;
  };
  /// Throws Error if an option is out of range.
  Adam(const ParameterGroups& parameters, const Options& options);
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
class AdamW final : public Adam {
 public:
  AdamW(const ParameterGroups& parameters, Options options);
};

}  // namespace braid
