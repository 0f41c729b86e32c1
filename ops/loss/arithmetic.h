#pragma once
// The arithmetic of losses (ops/common/arithmetic.h).

#include "core/base/random.h"

namespace braid::arithmetic {

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
  /// The same with a given probability, in a row whose target has this sum.
  BRAID_HOST_DEVICE T operator()(T probability, T given, T sum) const {
    return scale * (sum * probability - ((at_label - elsewhere) * given + elsewhere));
  }
};

}  // namespace braid::arithmetic
