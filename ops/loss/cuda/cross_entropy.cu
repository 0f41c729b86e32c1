// A warp computes a row; then a few blocks add the rows' results in a fixed order and look for labels out of range.
// Such a label makes a NaN of its row's results, and a DataFault reports the first to the host.

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/common/arithmetic.h"
#include "ops/kernels/cuda/arrival.cuh"
#include "ops/kernels/cuda/block_reduce.cuh"
#include "ops/kernels/cuda/elements.cuh"
#include "ops/kernels/cuda/fault.cuh"
#include "ops/kernels/cuda/warp_reduce.cuh"
#include "ops/loss/arithmetic.h"
#include "ops/loss/cross_entropy.h"

namespace braid::cuda {

namespace {

constexpr int kRowsPerBlock = kThreads / kWarp;
/// Rows that a thread adds up, if there are enough of them.
constexpr int kRowsPerThread = 16;

struct LogitRows {
  std::int64_t rows;
  std::int64_t classes;
  explicit LogitRows(const ValueDesc& logits) : rows(logits.shape[0]), classes(logits.shape[1]) {}
  __device__ bool is_label(std::int32_t label) const { return label >= 0 && label < classes; }
};

/// Calls f(row, lane, element of its first logit) for every row, with whole warps.
template <class F>
__device__ void for_each_row(const LogitRows& logits, const F& f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.x / kWarp; row < logits.rows;
       row += std::int64_t{gridDim.x} * kRowsPerBlock) {
    f(row, lane, row * logits.classes);
  }
}

/// Whether rows are compared with labels; otherwise with the probabilities of their classes.
template <class Truth>
constexpr bool kIsLabel = std::is_integral<Truth>::value;

/// Losses and softmax of the rows. Probabilities may lie on the logits: a lane reads what it then overwrites, but for
/// the label's logit, which is read before.
template <class T, class Truth>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(LogitRows shape, arithmetic::SmoothedTarget target, const T* logits, const Truth* truth,
                   T* probabilities, double* losses) {
  for_each_row(shape, [&](std::int64_t row, int lane, std::int64_t first) {
    const std::int32_t label = kIsLabel<Truth> ? static_cast<std::int32_t>(truth[row]) : 0;
    const bool valid = shape.is_label(label);
    T largest = static_cast<T>(-INFINITY);
    for (std::int64_t c = lane; c < shape.classes; c += kWarp) {
      const T logit = logits[first + c];
      largest = arithmetic::Larger<T>{}(logit, largest) ? logit : largest;
    }
    largest = warp_maximum(largest);
    T sum = 0, sum_of_logits = 0;
    double weighted = 0, given = 0;
    for (std::int64_t c = lane; c < shape.classes; c += kWarp) {
      const T shifted = logits[first + c] - largest;
      sum += std::exp(shifted);
      sum_of_logits += shifted;
      if constexpr (!kIsLabel<Truth>) {
        weighted += static_cast<double>(truth[first + c]) * static_cast<double>(shifted);
        given += static_cast<double>(truth[first + c]);
      }
    }
    if constexpr (!kIsLabel<Truth>) {
      weighted = warp_sum(weighted);
      given = warp_sum(given);
    }
    const double total = warp_sum(static_cast<double>(sum));
    const double total_of_logits = warp_sum(static_cast<double>(sum_of_logits));
    if (lane == 0) {
      if constexpr (kIsLabel<Truth>) {
        const double label_logit = valid ? static_cast<double>(logits[first + label] - largest) : NAN;
        losses[row] = target.loss(std::log(total), label_logit, total_of_logits);
      } else {
        losses[row] = target.loss(std::log(total), weighted, total_of_logits, target.sum(given));
      }
    }
    __syncwarp();
    const T inverse = valid ? static_cast<T>(1 / total) : static_cast<T>(NAN);
    for (std::int64_t c = lane; c < shape.classes; c += kWarp) {
      probabilities[first + c] = std::exp(logits[first + c] - largest) * inverse;
    }
  });
}

/// hits[row] = 1 if the label is among the k largest logits, else 0; a NaN for a label out of range.
template <class T>
__global__ void __launch_bounds__(kThreads)
    hits_kernel(LogitRows shape, std::int64_t k, const T* logits, const std::int32_t* labels, double* hits) {
  for_each_row(shape, [&](std::int64_t row, int lane, std::int64_t first) {
    const std::int32_t label = labels[row];
    const bool valid = shape.is_label(label);
    const T of_label = valid ? logits[first + label] : T(0);
    double ahead = 0;  // a NaN is ahead of everything: it makes no prediction right
    for (std::int64_t c = lane; c < shape.classes; c += kWarp) {
      const T logit = logits[first + c];
      if (!(logit <= of_label) || (logit == of_label && c < label)) ahead += 1;
    }
    ahead = warp_sum(ahead);
    if (lane == 0) hits[row] = valid ? (ahead < static_cast<double>(k) ? 1.0 : 0.0) : NAN;
  });
}

/// The rows of a block.
struct PartOfRows {
  double sum;
  std::int64_t first_bad;  ///< the first row whose label is out of range, or the number of all rows
};

/// The sum and the first bad row of all threads, for thread 0.
__device__ PartOfRows joined(PartOfRows part) {
  return {block_sum<kThreads>(part.sum), block_minimum<kThreads>(part.first_bad)};
}

/// The mean over all rows. Without labels, none is out of range. At most kThreads blocks.
template <class T>
__global__ void __launch_bounds__(kThreads)
    mean_of_rows_kernel(LogitRows shape, const double* values, const std::int32_t* labels, T* mean, DataFault* fault,
                        PartOfRows* parts, unsigned* arrivals) {
  PartOfRows part{0, shape.rows};
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; row < shape.rows; row += step) {
    part.sum += values[row];
    if (labels != nullptr && !shape.is_label(labels[row]) && row < part.first_bad) part.first_bad = row;
  }
  part = joined(part);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) parts[blockIdx.x] = part;
    if (!is_last_to_arrive(arrivals, gridDim.x)) return;
    const bool has_part = threadIdx.x < gridDim.x;
    part = joined(has_part ? parts[threadIdx.x] : PartOfRows{0, shape.rows});
  }
  if (threadIdx.x > 0) return;
  const auto [sum, first_bad] = part;
  *mean = static_cast<T>(sum / static_cast<double>(shape.rows));
  if (first_bad < shape.rows) report_fault(fault, DataFault::kLabel, labels[first_bad], shape.classes);
}

template <class T, class Truth>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(LogitRows shape, arithmetic::SmoothedTarget target, const T* dloss,
                                  const T* probabilities, const Truth* truth, T* dlogits) {
  const arithmetic::CrossEntropyGradient<T> gradient(target, *dloss, shape.rows);
  for_each_row(shape, [&](std::int64_t row, int lane, std::int64_t first) {
    if constexpr (kIsLabel<Truth>) {
      const std::int32_t label = truth[row];
      for (std::int64_t c = lane; c < shape.classes; c += kWarp) {
        dlogits[first + c] = gradient(probabilities[first + c], c == label);
      }
    } else {
      double given = 0;
      for (std::int64_t c = lane; c < shape.classes; c += kWarp) given += static_cast<double>(truth[first + c]);
      const T sum = static_cast<T>(target.sum(warp_sum(given)));
      for (std::int64_t c = lane; c < shape.classes; c += kWarp) {
        dlogits[first + c] = gradient(probabilities[first + c], truth[first + c], sum);
      }
    }
  });
}

LaunchShape shape_for(const LogitRows& logits, int units) {
  return {.grid = blocks_for(logits.rows, kRowsPerBlock, units), .block = kThreads};
}

arithmetic::SmoothedTarget target_for(const LogitRows& logits, double smoothing) {
  return {smoothing, static_cast<double>(logits.classes)};
}

/// Calls make.operator()<T, Truth>() for the types of logits and labels or targets.
template <class Make>
auto for_types(const KernelSpec& spec, const ValueDesc& logits, const ValueDesc& truth, const Make& make) {
  return for_computed_float(spec, logits.dtype, [&]<class T>() {
    return truth.dtype == DType::i32 ? make.template operator()<T, std::int32_t>() : make.template operator()<T, T>();
  });
}

unsigned mean_blocks(const LogitRows& logits) {
  return static_cast<unsigned>(std::clamp<std::int64_t>(logits.rows / (kThreads * kRowsPerThread), 1, kThreads));
}

/// A value for every row, then the parts of the blocks.
std::size_t workspace_bytes(const LogitRows& logits) {
  return static_cast<std::size_t>(logits.rows) * sizeof(double) + mean_blocks(logits) * sizeof(PartOfRows);
}

template <class T>
void launch_mean(const StreamHandles& stream, const LogitRows& logits, double* workspace, const std::int32_t* labels,
                 T* mean) {
  launch(stream, {.grid = mean_blocks(logits), .block = kThreads}, mean_of_rows_kernel<T>, logits,
         static_cast<const double*>(workspace), labels, mean, stream.fault,
         reinterpret_cast<PartOfRows*>(workspace + logits.rows), stream.arrivals);
}

}  // namespace

Implementations make_cross_entropy(const KernelSpec& spec) {
  return for_types(spec, spec.inputs[0], spec.inputs[1], [&]<class T, class Truth>() {
    const LogitRows logits(spec.inputs[0]);
    const auto target = target_for(logits, spec.attributes<ops::CrossEntropy>().label_smoothing);
    return function_kernel(
        workspace_bytes(logits),
        [=, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
          const auto* truth = at<const Truth>(inputs, 1);
          const auto* labels = kIsLabel<Truth> ? at<const std::int32_t>(inputs, 1) : nullptr;
          auto* losses = static_cast<double*>(workspace);
          launch(stream, shape_for(logits, units), softmax_kernel<T, Truth>, logits, target, at<const T>(inputs, 0),
                 truth, at<T>(outputs, 1), losses);
          launch_mean(stream, logits, losses, labels, at<T>(outputs, 0));
        });
  });
}

Implementations make_cross_entropy_backward(const KernelSpec& spec) {
  return for_types(spec, spec.inputs[1], spec.inputs[2], [&]<class T, class Truth>() {
    const LogitRows logits(spec.inputs[1]);
    const auto target = target_for(logits, spec.attributes<ops::CrossEntropyBackward>().label_smoothing);
    return function_kernel([=, units = spec.info->capacity](const StreamHandles& stream, auto inputs, auto outputs) {
      launch(stream, shape_for(logits, units), cross_entropy_backward_kernel<T, Truth>, logits, target,
             at<const T>(inputs, 0), at<const T>(inputs, 1), at<const Truth>(inputs, 2), at<T>(outputs, 0));
    });
  });
}

Implementations make_accuracy(const KernelSpec& spec) {
  return for_computed_float(spec, spec.inputs[0].dtype, [&]<class T>() {
    const LogitRows logits(spec.inputs[0]);
    return function_kernel(
        workspace_bytes(logits), [=, k = spec.attributes<ops::Accuracy>().k, units = spec.info->capacity](
                                     const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
          const auto* labels = at<const std::int32_t>(inputs, 1);
          auto* hits = static_cast<double*>(workspace);
          launch(stream, shape_for(logits, units), hits_kernel<T>, logits, k, at<const T>(inputs, 0), labels, hits);
          launch_mean(stream, logits, hits, labels, at<float>(outputs, 0));
        });
  });
}

}  // namespace braid::cuda
