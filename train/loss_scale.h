#pragma once
// Dynamic loss scaling for models that compute in f16 (ops/loss_scale.h), as torch.amp.GradScaler does it:
//
//     braid::LossScale scale(session);
//     …
//     braid::backward(scale(loss));
//     sgd.step(&scale);
//
// The scale is a state on the device and every decision is part of the step, so the host never waits to learn whether
// an update was skipped.

#include <array>

#include "autograd/tape.h"
#include "ops/loss_scale.h"

namespace braid {

/// Belongs to one optimizer. Use it from one thread at a time.
class LossScale {
 public:
  static constexpr float kInitial = 65536;

  /// Makes the state. The context must outlive the loss scale. Throws Error if an option is out of range.
  explicit LossScale(Context& context, const LossScaleOptions& options = {}, float initial = kInitial);
  /// Releases the state.
  ~LossScale() { context_.release(state_); }
  LossScale(const LossScale&) = delete;
  LossScale& operator=(const LossScale&) = delete;

  /// loss·scale, to pass to backward(). A step may scale several losses.
  Tensor operator()(const Tensor& loss);

  struct Update {
    ValueId updates;  ///< i32 scalar: the number of this update, from 1, skipped ones not counted
    ValueId factor;   ///< f32 scalar: the factor for the gradients; 0 skips the update
  };
  /// Records the check of the gradients and the next scale. The optimizer calls it.
  Update record_update(Tape& tape, std::span<const ValueId> gradients);

  /// The state: f32 scalar; i32 scalars. Context::read returns their values.
  std::span<Parameter* const> states() const { return state_; }
  const Parameter& scale() const { return *state_[0]; }
  const Parameter& good_steps() const { return *state_[1]; }  ///< since the scale last changed
  const Parameter& updates() const { return *state_[2]; }     ///< that were not skipped

 private:
  Context& context_;
  OpPtr update_;
  std::array<Parameter*, 3> state_;
};

}  // namespace braid
