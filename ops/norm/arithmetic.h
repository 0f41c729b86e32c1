#pragma once
// The arithmetic of normalisations (ops/common/arithmetic.h).

#include <cmath>

#include "core/base/random.h"

namespace braid::arithmetic {

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

/// What training saves for a channel.
template <class T>
struct BatchStatistics {
  T mean;
  T inverse_deviation;
  T running_mean;
  T running_variance;
};

/// The statistics from the moments of n elements and the running statistics so far: running ← (1 − momentum)·running +
/// momentum·batch.
template <class T>
BRAID_HOST_DEVICE BatchStatistics<T> batch_statistics(const Moments& batch, double n, double epsilon, double momentum,
                                                      T running_mean, T running_variance) {
  const auto average = [=](T running, double of_batch) {
    return static_cast<T>((1 - momentum) * static_cast<double>(running) + momentum * of_batch);
  };
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

/// The gradients from Σdy, Σ(dy·(x − mean)), 1/√(σ² + ε) and the number of elements.
template <class T>
BRAID_HOST_DEVICE NormalizationGradients<T> normalization_gradients(double sum, double covariance,
                                                                    double inverse_deviation, double n) {
  return {static_cast<T>(sum), static_cast<T>(covariance * inverse_deviation), static_cast<T>(sum / n),
          static_cast<T>(covariance * inverse_deviation * inverse_deviation / n)};
}

}  // namespace braid::arithmetic
