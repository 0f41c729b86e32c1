#pragma once
// Dynamic loss scaling for models that compute in f16 (ops/optimizer/loss_scale.h), as torch.amp.GradScaler does it:
//
//     braid::LossScale scale(session);
//     …
//     braid::backward(scale(loss));
//     sgd.step(&scale);
//
// The scale is a state on the device and every decision is part of the step, so the host never waits to learn whether
// an update was skipped.

#include "models/layers/module.h"
#include "ops/optimizer/loss_scale.h"

namespace braid {

/// Belongs to one optimizer. Use it from one thread at a time.
class LossScale {
 public:
  static constexpr float kInitial = 65536;

  /// Makes the state, which is released with it. Throws Error if an option is out of range.
  explicit LossScale(Context& context, const LossScaleOptions& options = {}, float initial = kInitial);
  LossScale(const LossScale&) = delete;
  LossScale& operator=(const LossScale&) = delete;

  /// loss·scale, to pass to backward(). A step may scale several losses.
  Tensor operator()(const Tensor& loss);

  struct Update {
    ValueId updates;  ///< i32 scalar: the number of this update, from 1, skipped ones not counted
    ValueId factor;   ///< f64 scalar: the factor for the gradients; 0 skips the update
  };
  /// Records the check of the gradients and the next scale. The optimizer calls it.
  Update record_update(Tape& tape, std::span<const ValueId> gradients);

  /// The state: f32 scalar; i32 scalars. Context::read returns their values.
  std::span<Parameter* const> states() const { return states_.all(); }
  const Parameter& scale() const { return *states()[0]; }
  const Parameter& good_steps() const { return *states()[1]; }  ///< since the scale last changed
  const Parameter& updates() const { return *states()[2]; }     ///< that were not skipped

 private:
  OwnedTensors states_;
  OpPtr update_;
};

/// Records the gradients of the objectives, of scaled losses if there is a scale.
void backward(std::vector<Objective> objectives, LossScale* scale);

}  // namespace braid
