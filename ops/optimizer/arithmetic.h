#pragma once
// The arithmetic of updates (ops/common/arithmetic.h).

#include <cmath>

#include "ops/common/arithmetic.h"
#include "ops/optimizer/optimizer.h"

namespace braid::arithmetic {

/// One step of SGD as in torch.optim.SGD. Branches are turned into factors, so that one loop serves all options.
template <class T>
struct SgdStep {
  T learning_rate;
  T momentum;
  T l2;               ///< weight decay added to the gradient
  T keep;             ///< 1 − lr·weight_decay if decoupled, else 1
  T gradient_weight;  ///< with Nesterov momentum 1, else 0
  T momentum_weight;  ///< with Nesterov momentum its factor, else 1

  BRAID_HOST_DEVICE static SgdStep make(const SgdOptions& options, double learning_rate) {
    return {.learning_rate = static_cast<T>(learning_rate),
            .momentum = static_cast<T>(options.momentum),
            .l2 = options.decoupled ? T(0) : static_cast<T>(options.weight_decay),
            .keep = options.decoupled ? static_cast<T>(1 - learning_rate * options.weight_decay) : T(1),
            .gradient_weight = options.nesterov ? T(1) : T(0),
            .momentum_weight = options.nesterov ? static_cast<T>(options.momentum) : T(1)};
  }

  BRAID_HOST_DEVICE void operator()(T& p, T gradient, T& m) const {
    const T g = gradient + l2 * p;
    m = momentum * m + g;
    p = keep * p - learning_rate * (gradient_weight * g + momentum_weight * m);
  }
  /// Updates without momentum.
  BRAID_HOST_DEVICE void operator()(T& p, T gradient) const { p = keep * p - learning_rate * (gradient + l2 * p); }
};

/// One step of Adam or AdamW as in torch.optim.
template <class T>
struct AdamStep {
  T beta1, new1;  ///< and 1 − β₁, rounded once
  T beta2, new2;
  T epsilon;
  T l2;                 ///< weight decay added to the gradient
  T keep;               ///< 1 − lr·weight_decay if decoupled, else 1
  T step_size;          ///< lr / (1 − β₁ᵗ)
  T second_correction;  ///< 1/√(1 − β₂ᵗ)

  BRAID_HOST_DEVICE static AdamStep make(const AdamOptions& options, double learning_rate, std::int32_t step) {
    const double t = static_cast<double>(step);
    return {.beta1 = static_cast<T>(options.beta1),
            .new1 = static_cast<T>(1 - options.beta1),
            .beta2 = static_cast<T>(options.beta2),
            .new2 = static_cast<T>(1 - options.beta2),
            .epsilon = static_cast<T>(options.epsilon),
            .l2 = options.decoupled ? T(0) : static_cast<T>(options.weight_decay),
            .keep = options.decoupled ? static_cast<T>(1 - learning_rate * options.weight_decay) : T(1),
            .step_size = static_cast<T>(learning_rate / (1 - std::pow(options.beta1, t))),
            .second_correction = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, t)))};
  }

  /// `root` is the square root of T.
  template <class Root>
  BRAID_HOST_DEVICE void operator()(T& p, T gradient, T& m, T& v, const Root& root) const {
    const T g = gradient + l2 * p;
    m = beta1 * m + new1 * g;
    v = beta2 * v + new2 * g * g;
    p = keep * p - step_size * m / (root(v) * second_correction + epsilon);
  }
};

/// The factor of gradients that are clipped by their global norm.
struct ClipStep {
  double max_norm;

  /// `norm` is the norm of the gradients as given, `factor` their factor.
  BRAID_HOST_DEVICE void operator()(double norm, double factor, double& clipped, double& unscaled) const {
    constexpr double kEpsilon = 1e-6;  // as in PyTorch
    unscaled = norm * factor;
    const double clip = max_norm / (unscaled + kEpsilon);
    clipped = is_finite(norm) ? factor * (clip < 1 ? clip : 1) : 0;
  }
};

/// y ← a·y + b·x. If a is 0, y need not hold a number.
template <class T>
struct Blend {
  T a, b;

  BRAID_HOST_DEVICE void operator()(T& y, T x) const { y = a == 0 ? b * x : a * y + b * x; }
};

/// Updates the scale of a loss after a step, as torch.amp.GradScaler does: back off if a gradient is not finite, grow
/// after `growth_interval` good steps in a row, as long as the scale stays a normal number.
struct LossScaleStep {
  float growth;
  float backoff;
  std::int32_t growth_interval;

  /// `updates` counts all good steps. Returns the factor of the gradients: 1/scale, or 0 to skip the update.
  BRAID_HOST_DEVICE double operator()(bool finite, float& scale, std::int32_t& good_steps,
                                      std::int32_t& updates) const {
    constexpr float kSmallest = 0x1p-126f, kLargest = 0x1p126f;  // their inverses are normal numbers too
    const double factor = finite ? 1 / static_cast<double>(scale) : 0;
    if (finite) ++updates;
    good_steps = finite ? good_steps + 1 : 0;
    if (!finite && scale * backoff >= kSmallest) scale *= backoff;
    if (good_steps == growth_interval) {
      if (scale * growth <= kLargest) scale *= growth;
      good_steps = 0;
    }
    return factor;
  }
};

}  // namespace braid::arithmetic
