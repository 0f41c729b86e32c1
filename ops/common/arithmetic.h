#pragma once
// The arithmetic of Braid's own kernels, one functor per formula. CPU and CUDA kernels differ in how they walk over
// memory; what they compute for one element or one channel is here, so tests on the CPU exercise what the GPU runs.

#include <cmath>

#include "core/base/random.h"
#include "ops/norm/batch_norm.h"
#include "ops/optimizer/optimizer.h"

namespace braid::arithmetic {

/// max(x, 0). A NaN stays a NaN.
template <class T>
struct Relu {
  BRAID_HOST_DEVICE T operator()(T x) const { return x < T(0) ? T(0) : x; }
};

/// The gradient of ReLU, from its output. A NaN lets it pass, as in PyTorch.
template <class T>
struct ReluGradient {
  BRAID_HOST_DEVICE T operator()(T dy, T y) const { return y <= T(0) ? T(0) : dy; }
};

/// min(max(x, 0), 6). A NaN stays a NaN.
template <class T>
struct Relu6 {
  BRAID_HOST_DEVICE T operator()(T x) const { return x < T(0) ? T(0) : x > T(6) ? T(6) : x; }
};

/// The gradient of ReLU6, from its output, likewise.
template <class T>
struct Relu6Gradient {
  BRAID_HOST_DEVICE T operator()(T dy, T y) const { return y <= T(0) || y >= T(6) ? T(0) : dy; }
};

/// What follows a layer in the same node.
template <Activation kActivation, class T>
BRAID_HOST_DEVICE T activate(T x) {
  if constexpr (kActivation == Activation::relu) return Relu<T>{}(x);
  if constexpr (kActivation == Activation::relu6) return Relu6<T>{}(x);
  return x;
}

/// The gradient of the activation, from its output. Also right from its input, because the activations are the identity
/// wherever they pass a gradient.
template <Activation kActivation, class T>
BRAID_HOST_DEVICE T activation_gradient(T dy, T y) {
  if constexpr (kActivation == Activation::relu) return ReluGradient<T>{}(dy, y);
  if constexpr (kActivation == Activation::relu6) return Relu6Gradient<T>{}(dy, y);
  return dy;
}

/// factor·x.
template <class T>
struct Scale {
  T factor;
  BRAID_HOST_DEVICE T operator()(T x) const { return factor * x; }
};

/// 1/(1 + e⁻ˣ); its derivative is s·(1 − s).
BRAID_HOST_DEVICE inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Mean and variance from sums of n values that were shifted by about their mean, which keeps the difference of squares
/// accurate (shifted data: Chan, Golub and LeVeque, 1983).
struct Moments {
  double mean;
  double variance;  ///< biased: divided by n

  BRAID_HOST_DEVICE static Moments from_shifted(double shift, double sum, double sum_of_squares, double n) {
    const double offset = sum / n;
    const double variance = sum_of_squares / n - offset * offset;
    return {shift + offset, variance < 0 ? 0 : variance};  // a NaN stays a NaN
  }
};

/// running ← (1 − momentum)·running + momentum·batch.
template <class T>
struct RunningAverage {
  double momentum;
  BRAID_HOST_DEVICE T operator()(T running, double batch) const {
    return static_cast<T>((1 - momentum) * static_cast<double>(running) + momentum * batch);
  }
};

/// What training keeps of a channel.
template <class T>
struct BatchStatistics {
  T mean;
  T inverse_deviation;
  T running_mean;
  T running_variance;
};

/// From the moments of n elements and the running statistics so far.
template <class T>
BRAID_HOST_DEVICE BatchStatistics<T> batch_statistics(const Moments& batch, double n, double epsilon, double momentum,
                                                      T running_mean, T running_variance) {
  const RunningAverage<T> average{momentum};
  return {static_cast<T>(batch.mean), static_cast<T>(1 / std::sqrt(batch.variance + epsilon)),
          average(running_mean, batch.mean), average(running_variance, batch.variance * n / (n - 1))};
}

/// γ/√(σ² + ε).
template <class T>
BRAID_HOST_DEVICE T normalization_scale(T gamma, T variance, double epsilon) {
  return static_cast<T>(static_cast<double>(gamma) / std::sqrt(static_cast<double>(variance) + epsilon));
}

/// (x − mean)·scale + shift, where scale = γ/√(σ² + ε) and shift = β. Subtracting first keeps the digits of a small
/// deviation from a large mean.
template <class T>
struct Normalize {
  BRAID_HOST_DEVICE T operator()(T x, T mean, T scale, T shift) const { return (x - mean) * scale + shift; }
};

/// dx of batch normalisation: scale·(dy − Σdy/n − (x − mean)·slope), where slope = Σ(dy·(x − mean)) / (n·(σ² + ε)).
template <class T>
struct NormalizeGradient {
  BRAID_HOST_DEVICE T operator()(T dy, T x, T mean, T scale, T dy_mean, T slope) const {
    return scale * (dy - dy_mean - (x - mean) * slope);
  }
};

/// A channel's gradients and the coefficients of NormalizeGradient.
template <class T>
struct NormalizationGradients {
  T dbeta;
  T dgamma;
  T dy_mean;
  T slope;
};

/// From Σdy, Σ(dy·(x − mean)), 1/√(σ² + ε) and the number of elements.
template <class T>
BRAID_HOST_DEVICE NormalizationGradients<T> normalization_gradients(double sum, double covariance,
                                                                    double inverse_deviation, double n) {
  return {static_cast<T>(sum), static_cast<T>(covariance * inverse_deviation), static_cast<T>(sum / n),
          static_cast<T>(covariance * inverse_deviation * inverse_deviation / n)};
}

/// The first of equal maxima wins; a NaN always does, so that it is not lost. T may be a vector.
template <class T>
struct Larger {
  BRAID_HOST_DEVICE auto operator()(T candidate, T best) const { return (candidate > best) | (candidate != candidate); }
};

/// Scale of an element under dropout: 0 or 1/(1 − p). A draw below p drops.
template <class T>
struct DropoutScale {
  float p;
  BRAID_HOST_DEVICE T operator()(std::uint32_t draw) const { return to_unit(draw) < p ? T(0) : T(1) / (T(1) - T(p)); }
};

/// Cross entropy with label smoothing s: the target is (1 − s) at the label, or (1 − s) times given probabilities, plus
/// s/K everywhere.
struct SmoothedTarget {
  double smoothing;
  double classes;
  BRAID_HOST_DEVICE double operator()(bool is_label) const {
    return (is_label ? 1 - smoothing : 0.0) + smoothing / classes;
  }
  /// The sum of a target whose given probabilities sum to `given`: 1 if they do.
  BRAID_HOST_DEVICE double sum(double given) const { return 1 + (1 - smoothing) * (given - 1); }
  /// −Σ target·log softmax, given the logarithm of the sum of exponentials, the label's logit (the logits weighted with
  /// the given probabilities), the sum of all logits, and the sum of the target.
  BRAID_HOST_DEVICE double loss(double log_sum_exp, double label_logit, double sum_of_logits, double sum = 1) const {
    const double loss = sum * log_sum_exp - (1 - smoothing) * label_logit;
    return smoothing == 0 ? loss : loss - smoothing / classes * sum_of_logits;  // the sum may be infinite
  }
};

/// The gradient of a logit: scale·(probability − target), where scale is dloss over the number of rows.
template <class T>
struct CrossEntropyGradient {
  T scale;
  T at_label;
  T elsewhere;

  BRAID_HOST_DEVICE CrossEntropyGradient(const SmoothedTarget& target, T dloss, std::int64_t rows)
      : scale(dloss / static_cast<T>(rows)),
        at_label(static_cast<T>(target(true))),
        elsewhere(static_cast<T>(target(false))) {}
  BRAID_HOST_DEVICE T operator()(T probability, bool is_label) const {
    return scale * (probability - (is_label ? at_label : elsewhere));
  }
  /// With a given probability, in a row whose target has this sum.
  BRAID_HOST_DEVICE T operator()(T probability, T given, T sum) const {
    return scale * (sum * probability - ((at_label - elsewhere) * given + elsewhere));
  }
};

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
  /// Without momentum.
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

/// Neither infinite nor a NaN.
template <class T>
BRAID_HOST_DEVICE bool is_finite(T x) {
  return x - x == T(0);
}

/// Updates the scale of a loss after a step, as torch.amp.GradScaler does: back off if a gradient is not finite, grow
/// after `growth_interval` good steps in a row, as long as the scale stays a normal number.
struct ClipStep {
  double max_norm;

  /// `norm` is that of the gradients as they are, `factor` what they are to be multiplied by.
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

struct LossScaleStep {
  float growth;
  float backoff;
  std::int32_t growth_interval;

  /// `updates` counts the good steps ever. Returns the factor of the gradients: 1/scale, or 0 to skip the update.
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
