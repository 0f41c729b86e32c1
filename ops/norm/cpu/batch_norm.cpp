#include "ops/norm/batch_norm.h"

#include "core/base/align.h"
#include "ops/kernels/cpu/channel_rows.h"
#include "ops/kernels/function_kernel.h"
#include "ops/norm/arithmetic.h"

namespace braid::cpu {

namespace {

/// Per-channel coefficients, side by side as in a wide row.
template <class T>
struct Coefficients {
  T* mean;
  T* scale;
  T* shift;  // shift of the output forward; the mean of dy backward
  T* slope;  // backward only
  T* beta;   // backward only

  static std::size_t bytes(const ChannelRows& rows) { return 5 * sizeof(T) * static_cast<std::size_t>(rows.width()); }
  Coefficients(const ChannelRows& rows, void* memory)
      : mean(static_cast<T*>(memory)),
        scale(mean + rows.width()),
        shift(scale + rows.width()),
        slope(shift + rows.width()),
        beta(slope + rows.width()) {}

  /// Fills a wide row from its first C entries.
  void widen(const ChannelRows& rows) const {
    for (T* list : {mean, scale, shift, slope, beta}) {
      for (std::int64_t i = rows.channels; i < rows.width(); ++i) list[i] = list[i - rows.channels];
    }
  }
};

/// Coefficients come first in the workspace, the sums' memory after them.
template <class T>
std::byte* after_coefficients(const ChannelRows& rows, void* workspace) {
  return static_cast<std::byte*>(workspace) + align_up(Coefficients<T>::bytes(rows), std::size_t{64});
}

template <class T>
std::size_t workspace_bytes(const ChannelRows& rows) {
  return Coefficients<T>::bytes(rows) + 64 + sum_channels_bytes<2, T>(rows);
}

/// Calls f(element, i) for all elements, i being the place in a wide row. Backward, because sums came before.
template <class F>
void for_each_backward(int threads, const ChannelRows& rows, const F& f) {
  parallel_for<LoopOrder::backward>(threads, rows.rows, rows.grain, [&](std::int64_t begin, std::int64_t end) {
    rows.for_wide_rows(begin, end, [&](std::int64_t first_element, std::int64_t count, std::int64_t width) {
      for_each_in_rows(first_element, count, width, f);
    });
  });
}

/// y = act((x − mean)·scale + shift [+ residual]).
template <class T>
void normalize(int threads, const ChannelRows& rows, const BatchNormOptions& options, const Coefficients<T>& channel,
               const T* x, const T* residual, T* y) {
  const auto normalized = [=](std::int64_t e, std::int64_t i) {
    return arithmetic::Normalize<T>{}(x[e], channel.mean[i], channel.scale[i], channel.shift[i]);
  };
  const auto run = [&](const auto& activate) {
    if (options.add) {
      for_each_backward(threads, rows,
                        [=](std::int64_t e, std::int64_t i) { y[e] = activate(normalized(e, i) + residual[e]); });
    } else {
      for_each_backward(threads, rows, [=](std::int64_t e, std::int64_t i) { y[e] = activate(normalized(e, i)); });
    }
  };
  if (options.activation == Activation::none) return run([](T value) { return value; });
  run(range_of(options.activation));
}

/// About the mean of every channel, from a few rows spread over the tensor: a good shift for the sums.
template <class T>
void estimate_mean(const ChannelRows& rows, const T* x, T* mean) {
  constexpr std::int64_t kSamples = 16;
  const std::int64_t samples = std::min(kSamples, rows.rows);
  const T weight = T(1) / static_cast<T>(samples);
  std::fill_n(mean, rows.channels, T(0));
  for (std::int64_t i = 0; i < samples; ++i) {
    const T* row = x + (i * rows.rows / samples) * rows.channels;
    for_each_element(0, rows.channels, [=](std::int64_t c) { mean[c] += weight * row[c]; });
  }
}

/// Writes batch mean, 1/√(variance + ε) and new running statistics of x to `outputs`. Overwrites the coefficients' and
/// the sums' memory.
template <class T>
void write_statistics(int threads, const ChannelRows& rows, double epsilon, double momentum, const T* x,
                      std::span<void* const> running, std::span<void* const> outputs, void* memory) {
  const T *running_mean = at<const T>(running, 0), *running_variance = at<const T>(running, 1);
  T *mean = at<T>(outputs, 0), *inverse_deviation = at<T>(outputs, 1);
  T *new_running_mean = at<T>(outputs, 2), *new_running_variance = at<T>(outputs, 3);
  const Coefficients<T> channel(rows, memory);
  T* const shift = channel.shift;
  estimate_mean(rows, x, shift);
  channel.widen(rows);
  const auto terms = [=](std::int64_t e, std::int64_t i) {
    const T deviation = x[e] - shift[i];
    return Addends<T>{deviation, deviation * deviation};
  };
  const double* sums = sum_channels<2, T>(threads, rows, terms, after_coefficients<T>(rows, memory));
  const double n = static_cast<double>(rows.rows);
  const double* squares = sums + rows.channels;
  for_each_element(0, rows.channels, [=](std::int64_t c) {
    const auto batch = arithmetic::Moments::from_shifted(static_cast<double>(shift[c]), sums[c], squares[c], n);
    const auto statistics =
        arithmetic::batch_statistics(batch, n, epsilon, momentum, running_mean[c], running_variance[c]);
    mean[c] = statistics.mean;
    inverse_deviation[c] = statistics.inverse_deviation;
    new_running_mean[c] = statistics.running_mean;
    new_running_variance[c] = statistics.running_variance;
  });
}

/// y, given the mean and what γ is multiplied by.
template <class T, class Scale>
void normalize(int threads, const ChannelRows& rows, const BatchNormOptions& options, std::span<void* const> inputs,
               const T* mean, const T* statistic, const Scale& scale, T* y, void* memory) {
  const T *gamma = at<const T>(inputs, 1), *beta = at<const T>(inputs, 2);
  const Coefficients<T> channel(rows, memory);
  for (std::int64_t c = 0; c < rows.channels; ++c) {
    channel.mean[c] = mean[c];
    channel.scale[c] = scale(gamma[c], statistic[c]);
    channel.shift[c] = beta[c];
  }
  channel.widen(rows);
  normalize(threads, rows, options, channel, at<const T>(inputs, 0), options.add ? at<const T>(inputs, 5) : nullptr, y);
}

template <class T>
T product(T gamma, T inverse_deviation) {
  return gamma * inverse_deviation;
}

template <class T>
std::unique_ptr<Kernel> forward(const KernelSpec& spec) {
  const BatchNormOptions options = ops::training_options(spec.op);
  const ChannelRows rows(spec.inputs[0].shape);
  return function_kernel(workspace_bytes<T>(rows), [=, threads = spec.width](auto inputs, auto outputs, void* memory) {
    write_statistics(threads, rows, options.epsilon, options.momentum, at<const T>(inputs, 0), inputs.subspan(3, 2),
                     outputs.subspan(1), memory);
    normalize<T>(threads, rows, options, inputs, at<T>(outputs, 1), at<T>(outputs, 2), product<T>, at<T>(outputs, 0),
                 memory);
  });
}

template <class T>
std::unique_ptr<Kernel> statistics(const KernelSpec& spec) {
  const BatchNormStatisticsOptions options = spec.attributes<ops::BatchNormStatistics>();
  const ChannelRows rows(spec.inputs[0].shape);
  return function_kernel(workspace_bytes<T>(rows), [=, threads = spec.width](auto inputs, auto outputs, void* memory) {
    write_statistics(threads, rows, options.epsilon, options.momentum, at<const T>(inputs, 0), inputs.subspan(1, 2),
                     outputs, memory);
  });
}

/// x, γ, β, mean, a statistic [, residual] → y, where γ and the statistic make the scale.
template <class T, class Scale>
std::unique_ptr<Kernel> normalization(const KernelSpec& spec, const BatchNormOptions& options, Scale scale) {
  const ChannelRows rows(spec.inputs[0].shape);
  return function_kernel(Coefficients<T>::bytes(rows),
                         [=, threads = spec.width](auto inputs, auto outputs, void* memory) {
                           normalize<T>(threads, rows, options, inputs, at<const T>(inputs, 3), at<const T>(inputs, 4),
                                        scale, at<T>(outputs, 0), memory);
                         });
}

template <class T>
std::unique_ptr<Kernel> backward(const KernelSpec& spec) {
  const BatchNormOptions options = spec.attributes<ops::BatchNormBackward>();
  const ChannelRows rows(spec.inputs[0].shape);
  return function_kernel(workspace_bytes<T>(rows), [=, threads = spec.width](auto inputs, auto outputs, void* memory) {
    const T *dy = at<const T>(inputs, 0), *x = at<const T>(inputs, 1), *gamma = at<const T>(inputs, 2);
    const T *mean = at<const T>(inputs, 3), *inverse_deviation = at<const T>(inputs, 4);
    T *dx = at<T>(outputs, 0), *dgamma = at<T>(outputs, 1), *dbeta = at<T>(outputs, 2);

    Coefficients<T> channel(rows, memory);
    std::copy_n(mean, rows.channels, channel.mean);
    for (std::int64_t c = 0; c < rows.channels; ++c) channel.scale[c] = gamma[c] * inverse_deviation[c];
    const bool activates = options.activation != Activation::none;
    if (activates && !options.add) std::copy_n(at<const T>(inputs, 5), rows.channels, channel.beta);
    channel.widen(rows);
    const T* y = activates && options.add ? at<const T>(inputs, 5) : nullptr;
    T* dresidual = activates && options.add ? at<T>(outputs, 3) : nullptr;

    const auto run = [&]<bool kResidual>(std::bool_constant<kResidual>, const auto& gradient) {
      const auto terms = [=](std::int64_t e, std::int64_t i) {
        const T g = gradient(e, i);
        return Addends<T>{g, g * (x[e] - channel.mean[i])};
      };
      const double* sums = sum_channels<2, T>(threads, rows, terms, after_coefficients<T>(rows, memory));

      const double n = static_cast<double>(rows.rows);
      const double* covariances = sums + rows.channels;
      for_each_element(0, rows.channels, [=](std::int64_t c) {
        const auto gradients = arithmetic::normalization_gradients<T>(sums[c], covariances[c],
                                                                      static_cast<double>(inverse_deviation[c]), n);
        dbeta[c] = gradients.dbeta;
        dgamma[c] = gradients.dgamma;
        channel.shift[c] = gradients.dy_mean;
        channel.slope[c] = gradients.slope;
      });
      channel.widen(rows);

      for_each_backward(threads, rows, [=](std::int64_t e, std::int64_t i) {
        const T g = gradient(e, i);
        dx[e] = arithmetic::NormalizeGradient<T>{}(g, x[e], channel.mean[i], channel.scale[i], channel.shift[i],
                                                   channel.slope[i]);
        if constexpr (kResidual) dresidual[e] = g;
      });
    };
    const ActivationGradient activation = gradient_of(options.activation);
    if (!activates) {
      run(std::false_type(), [=](std::int64_t e, std::int64_t) { return dy[e]; });
    } else if (options.add) {
      run(std::true_type(), [=](std::int64_t e, std::int64_t) { return activation(dy[e], y[e]); });
    } else {
      run(std::false_type(), [=](std::int64_t e, std::int64_t i) {
        return activation(dy[e], arithmetic::Normalize<T>{}(x[e], channel.mean[i], channel.scale[i], channel.beta[i]));
      });
    }
  });
}

}  // namespace

Implementations make_batch_norm(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() { return forward<T>(spec); });
}

Implementations make_shard_batch_norm(const KernelSpec& spec) { return make_batch_norm(spec); }

Implementations make_batch_norm_statistics(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() { return statistics<T>(spec); });
}

Implementations make_batch_norm_apply(const KernelSpec& spec) {
  const BatchNormOptions& options = spec.attributes<ops::BatchNormApply>();
  return for_float_type(spec, spec.inputs[0].dtype,
                        [&]<class T>() { return normalization<T>(spec, options, product<T>); });
}

Implementations make_batch_norm_inference(const KernelSpec& spec) {
  const BatchNormOptions& options = spec.attributes<ops::BatchNormInference>();
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() {
    return normalization<T>(spec, options, [epsilon = options.epsilon](T gamma, T variance) {
      return arithmetic::normalization_scale(gamma, variance, epsilon);
    });
  });
}

Implementations make_batch_norm_backward(const KernelSpec& spec) {
  return for_float_type(spec, spec.inputs[0].dtype, [&]<class T>() { return backward<T>(spec); });
}

}  // namespace braid::cpu
