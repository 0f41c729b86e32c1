#include "ops/loss/cross_entropy.h"

#include <cmath>
#include <numeric>
#include <type_traits>

#include "ops/kernels/cpu/loops.h"
#include "ops/kernels/function_kernel.h"
#include "ops/loss/arithmetic.h"

namespace braid::cpu {

namespace {

struct LogitRows {
  std::int64_t rows;
  std::int64_t classes;
  explicit LogitRows(const ValueDesc& logits) : rows(logits.shape[0]), classes(logits.shape[1]) {}
  std::int64_t grain() const { return grain_of(classes, 4096); }
};

/// Throws DataError for the first label outside [0, K). Runs before any parallel loop, because no exception may leave
/// one.
void check_labels(std::string_view op, const LogitRows& logits, const std::int32_t* labels) {
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    BRAID_CHECK(labels[row] >= 0 && labels[row] < logits.classes, DataError, "[", op, "] expected labels in [0, ",
                logits.classes, "), got ", labels[row], " in row ", row);
  }
}

/// The truth of a row: its label, if Truth is an integer, or the probabilities of its classes.
template <class Truth>
constexpr bool kIsLabel = std::is_integral_v<Truth>;

template <class Truth>
const Truth* truth_of_row(const LogitRows& logits, const Truth* truth, std::int64_t row) {
  return truth + row * (kIsLabel<Truth> ? 1 : logits.classes);
}

/// Loss of one row; writes its softmax, which may lie on the logits.
template <class T, class Truth>
double softmax_row(std::int64_t classes, const T* logits, const Truth* truth, const arithmetic::SmoothedTarget& target,
                   T* probabilities) {
  const T largest = *std::max_element(logits, logits + classes);
  double label_logit = 0, given = 1;
  if constexpr (kIsLabel<Truth>) {
    label_logit = static_cast<double>(logits[*truth] - largest);
  } else {
    given = std::accumulate(truth, truth + classes, 0.0);
  }
  double sum = 0, sum_of_logits = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const T shifted = logits[c] - largest;
    probabilities[c] = std::exp(shifted);
    sum += static_cast<double>(probabilities[c]);
    sum_of_logits += static_cast<double>(shifted);
    if constexpr (!kIsLabel<Truth>) label_logit += static_cast<double>(truth[c]) * static_cast<double>(shifted);
  }
  const T inverse = static_cast<T>(1 / sum);
  for (std::int64_t c = 0; c < classes; ++c) probabilities[c] *= inverse;
  return target.loss(std::log(sum), label_logit, sum_of_logits, target.sum(given));
}

/// Calls make.operator()<T, Truth>() for the types of logits and labels or targets.
template <class Make>
auto for_types(const KernelSpec& spec, const ValueDesc& logits, const ValueDesc& truth, const Make& make) {
  return for_float_type(spec, logits.dtype, [&]<class T>() {
    return truth.dtype == DType::i32 ? make.template operator()<T, std::int32_t>() : make.template operator()<T, T>();
  });
}

}  // namespace

Implementations make_cross_entropy(const KernelSpec& spec) {
  return for_types(spec, spec.inputs[0], spec.inputs[1], [&]<class T, class Truth>() {
    const LogitRows shape(spec.inputs[0]);
    const arithmetic::SmoothedTarget target{spec.attributes<ops::CrossEntropy>().label_smoothing,
                                            static_cast<double>(shape.classes)};
    const std::size_t bytes = static_cast<std::size_t>(shape.rows) * sizeof(double);
    return function_kernel(bytes, [=, width = spec.width](auto inputs, auto outputs, void* workspace) {
      const T* logits = at<const T>(inputs, 0);
      const Truth* truth = at<const Truth>(inputs, 1);
      T* probabilities = at<T>(outputs, 1);
      double* losses = static_cast<double*>(workspace);
      if constexpr (kIsLabel<Truth>) check_labels("cross_entropy", shape, truth);
      parallel_for(width, shape.rows, shape.grain(), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          losses[row] = softmax_row(shape.classes, logits + row * shape.classes, truth_of_row(shape, truth, row),
                                    target, probabilities + row * shape.classes);
        }
      });
      double loss = 0;
      for (std::int64_t row = 0; row < shape.rows; ++row) loss += losses[row];
      *at<T>(outputs, 0) = static_cast<T>(loss / static_cast<double>(shape.rows));
    });
  });
}

Implementations make_cross_entropy_backward(const KernelSpec& spec) {
  return for_types(spec, spec.inputs[1], spec.inputs[2], [&]<class T, class Truth>() {
    const LogitRows shape(spec.inputs[1]);
    const arithmetic::SmoothedTarget target{spec.attributes<ops::CrossEntropyBackward>().label_smoothing,
                                            static_cast<double>(shape.classes)};
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const arithmetic::CrossEntropyGradient<T> gradient(target, *at<const T>(inputs, 0), shape.rows);
      const T* probabilities = at<const T>(inputs, 1);
      const Truth* truths = at<const Truth>(inputs, 2);
      T* dlogits = at<T>(outputs, 0);
      parallel_for(width, shape.rows, shape.grain(), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          const Truth* truth = truth_of_row(shape, truths, row);
          const std::int64_t first = row * shape.classes;
          if constexpr (kIsLabel<Truth>) {
            for (std::int64_t c = 0; c < shape.classes; ++c)
              dlogits[first + c] = gradient(probabilities[first + c], c == *truth);
          } else {
            const T sum = static_cast<T>(target.sum(std::accumulate(truth, truth + shape.classes, 0.0)));
            for (std::int64_t c = 0; c < shape.classes; ++c)
              dlogits[first + c] = gradient(probabilities[first + c], truth[c], sum);
          }
        }
      });
    });
  });
}

Implementations make_accuracy(const KernelSpec& spec) {
  const LogitRows shape(spec.inputs[0]);
  return float_kernel(spec, [=, k = spec.attributes<ops::Accuracy>().k]<class T>(auto inputs, auto outputs) {
    const T* logits = at<const T>(inputs, 0);
    const std::int32_t* labels = at<const std::int32_t>(inputs, 1);
    check_labels("accuracy", shape, labels);
    std::int64_t correct = 0;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const T* x = logits + row * shape.classes;
      const std::int32_t label = labels[row];
      std::int64_t ahead = 0;  // a NaN is ahead of everything: it makes no prediction right
      for (std::int64_t c = 0; c < shape.classes; ++c) ahead += !(x[c] <= x[label]) || (x[c] == x[label] && c < label);
      correct += ahead < k;
    }
    *at<float>(outputs, 0) = static_cast<float>(static_cast<double>(correct) / static_cast<double>(shape.rows));
  });
}

}  // namespace braid::cpu
