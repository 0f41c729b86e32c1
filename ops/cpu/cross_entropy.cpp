#include "ops/cross_entropy.h"

#include <cmath>

#include "core/parallel.h"
#include "ops/common/arithmetic.h"
#include "ops/function_kernel.h"

namespace braid::cpu {

namespace {

struct LogitRows {
  std::int64_t rows;
  std::int64_t classes;
  explicit LogitRows(const ValueDesc& logits) : rows(logits.shape[0]), classes(logits.shape[1]) {}
  std::int64_t grain() const { return std::max<std::int64_t>(1, 4096 / classes); }
};

/// Throws DataError for the first label outside [0, K). Comes before any parallel loop, which no exception may leave.
void check_labels(std::string_view op, const LogitRows& logits, const std::int32_t* labels) {
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    BRAID_CHECK(labels[row] >= 0 && labels[row] < logits.classes, DataError, "[", op, "] expected labels in [0, ",
                logits.classes, "), got ", labels[row], " in row ", row);
  }
}

/// Loss of one row; writes its softmax, which may lie on the logits.
template <class T>
double softmax_row(std::int64_t classes, const T* logits, std::int32_t label, const arithmetic::SmoothedTarget& target,
                   T* probabilities) {
  const T largest = *std::max_element(logits, logits + classes);
  const double label_logit = static_cast<double>(logits[label] - largest);
  double sum = 0, sum_of_logits = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const T shifted = logits[c] - largest;
    probabilities[c] = std::exp(shifted);
    sum += static_cast<double>(probabilities[c]);
    sum_of_logits += static_cast<double>(shifted);
  }
  const T inverse = static_cast<T>(1 / sum);
  for (std::int64_t c = 0; c < classes; ++c) probabilities[c] *= inverse;
  return target.loss(std::log(sum), label_logit, sum_of_logits);
}

}  // namespace

Implementations make_cross_entropy(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const LogitRows shape(spec.inputs[0]);
    const arithmetic::SmoothedTarget target{spec.attributes<ops::CrossEntropy>().label_smoothing,
                                            static_cast<double>(shape.classes)};
    const std::size_t bytes = static_cast<std::size_t>(shape.rows) * sizeof(double);
    return function_kernel(bytes, [=, width = spec.width](auto inputs, auto outputs, void* workspace) {
      const T* logits = at<const T>(inputs, 0);
      const std::int32_t* labels = at<const std::int32_t>(inputs, 1);
      T* probabilities = at<T>(outputs, 1);
      double* losses = static_cast<double*>(workspace);
      check_labels("cross_entropy", shape, labels);
      parallel_for(width, shape.rows, shape.grain(), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          losses[row] = softmax_row(shape.classes, logits + row * shape.classes, labels[row], target,
                                    probabilities + row * shape.classes);
        }
      });
      double loss = 0;
      for (std::int64_t row = 0; row < shape.rows; ++row) loss += losses[row];
      *at<T>(outputs, 0) = static_cast<T>(loss / static_cast<double>(shape.rows));
    });
  });
}

Implementations make_cross_entropy_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[1].dtype, [&]<class T>() {
    const LogitRows shape(spec.inputs[1]);
    const arithmetic::SmoothedTarget target{spec.attributes<ops::CrossEntropyBackward>().label_smoothing,
                                            static_cast<double>(shape.classes)};
    return function_kernel([=, width = spec.width](auto inputs, auto outputs) {
      const arithmetic::CrossEntropyGradient<T> gradient(target, *at<const T>(inputs, 0), shape.rows);
      const T* probabilities = at<const T>(inputs, 1);
      const std::int32_t* labels = at<const std::int32_t>(inputs, 2);
      T* dlogits = at<T>(outputs, 0);
      parallel_for(width, shape.rows, shape.grain(), [=](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          for (std::int64_t c = 0; c < shape.classes; ++c) {
            const std::int64_t i = row * shape.classes + c;
            dlogits[i] = gradient(probabilities[i], c == labels[row]);
          }
        }
      });
    });
  });
}

Implementations make_accuracy(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    const LogitRows shape(spec.inputs[0]);
    return function_kernel([=, k = spec.attributes<ops::Accuracy>().k](auto inputs, auto outputs) {
      const T* logits = at<const T>(inputs, 0);
      const std::int32_t* labels = at<const std::int32_t>(inputs, 1);
      check_labels("accuracy", shape, labels);
      std::int64_t correct = 0;
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const T* x = logits + row * shape.classes;
        const std::int32_t label = labels[row];
        std::int64_t ahead = 0;  // a NaN is ahead of everything: it makes no prediction right
        for (std::int64_t c = 0; c < shape.classes; ++c)
          ahead += !(x[c] <= x[label]) || (x[c] == x[label] && c < label);
        correct += ahead < k;
      }
      *at<float>(outputs, 0) = static_cast<float>(static_cast<double>(correct) / static_cast<double>(shape.rows));
    });
  });
}

}  // namespace braid::cpu
