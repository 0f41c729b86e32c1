// All passes are bound by memory, so each element is read as rarely as possible, 16 bytes at a time, and enough reads
// are in flight. Training takes two launches: sums over tiles of the tensor, of which the last tile of every column
// makes the statistics, and the normalisation with what follows it; the backward pass has the same form. The second
// pass goes through the rows from the end, which is what the L2 cache still holds. A tensor of few rows takes one
// launch: a block has all the rows of its channels, and reads them from the cache the second time.
//
// Sums are of data shifted by about their mean, as on the CPU (arithmetic::Moments). Per-channel values are of the type
// that the elements are computed in.

#include "ops/norm/arithmetic.h"
#include "ops/norm/batch_norm.h"
#include "ops/norm/cuda/channel_tiles.cuh"

namespace braid::cuda {

namespace {

/// Blocks of a pass over the elements that an SM holds at once, at least: together they have enough reads in flight to
/// use all of the memory's bandwidth. Caps registers at 64.
constexpr int kBlocksAtOnce = 4;

/// About the means of kWidth channels, from four rows spread over the tensor: a good shift for the sums, and the same
/// in every block.
template <int kWidth, class T>
__device__ Lanes<Compute<T>, kWidth> estimate_mean(const T* x, std::int64_t rows, int channels, int channel) {
  Lanes<Compute<T>, kWidth> sum = {};
  for_lanes<4>([&](int i) {
    const auto sample = load<kWidth>(x + rows * i / 4 * channels + channel);
    for_lanes<kWidth>([&](int lane) { sum[lane] += sample[lane]; });
  });
  for_lanes<kWidth>([&](int lane) { sum[lane] *= Compute<T>(0.25); });
  return sum;
}

/// y = act((x − mean)·scale + β [+ residual]).
template <class T>
struct Normalization {
  using C = Compute<T>;
  const T* x;
  const T* residual;  // or null
  T* y;
  const C *mean = nullptr, *gamma, *beta;
  const C* inverse_deviation = nullptr;  // or null: then the variance counts
  const C* variance = nullptr;
  double epsilon;
  ActivationRange range;

  /// x, γ, β, …, and the residual as input 5; the mean and a statistic are yet to be set.
  Normalization(const BatchNormOptions& options, std::span<void* const> inputs, std::span<void* const> outputs)
      : x(at<const T>(inputs, 0)),
        residual(options.add ? at<const T>(inputs, 5) : nullptr),
        y(at<T>(outputs, 0)),
        gamma(at<const C>(inputs, 1)),
        beta(at<const C>(inputs, 2)),
        epsilon(options.epsilon),
        range(range_of(options.activation)) {}

  template <int kWidth>
  __device__ void apply(const ChannelTiles& tiles, const TilePlace<kWidth>& place) const {
    if (!place.inside) return;
    const auto m = load<kWidth>(mean + place.channel), shift = load<kWidth>(beta + place.channel);
    auto scale = load<kWidth>(gamma + place.channel);
    if (inverse_deviation != nullptr) {
      const auto factor = load<kWidth>(inverse_deviation + place.channel);
      for_lanes<kWidth>([&](int i) { scale[i] *= factor[i]; });
    } else {
      const auto v = load<kWidth>(variance + place.channel);
      for_lanes<kWidth>([&](int i) { scale[i] = arithmetic::normalization_scale(scale[i], v[i], epsilon); });
    }
    struct Row {
      Packed<T, kWidth> x, residual;
    };
    const std::int64_t last = (tiles.rows - 1) * tiles.channels + 2 * std::int64_t{place.channel};
    for_rows<2>(
        place.row * tiles.channels + place.channel, place.step * tiles.channels, tiles.rows * tiles.channels,
        [&](std::int64_t e) {
          Row row;
          row.x = load_packed<kWidth>(x + (last - e));
          if (residual != nullptr) row.residual = load_packed<kWidth>(residual + (last - e));
          return row;
        },
        [&](std::int64_t e, const Row& row) {
          auto lanes = unpack(row.x);
          for_lanes<kWidth>([&](int i) { lanes[i] = arithmetic::Normalize<C>{}(lanes[i], m[i], scale[i], shift[i]); });
          if (residual != nullptr) {
            const auto others = unpack(row.residual);
            for_lanes<kWidth>([&](int i) { lanes[i] += others[i]; });
          }
          for_lanes<kWidth>([&](int i) { lanes[i] = range(lanes[i]); });
          store<kWidth>(y + (last - e), lanes);
        });
  }
};

/// The pass over the elements, of either direction.
template <int kWidth, class Pass>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    element_kernel(const __grid_constant__ ChannelTiles tiles, const __grid_constant__ Pass pass) {
  pass.apply(tiles, TilePlace<kWidth>(tiles));
}

/// Sums, statistics and the pass over the elements at once, for tiles that have all rows of their channels.
template <int kWidth, class C, class Terms, class Finish, class Pass>
__global__ void __launch_bounds__(kThreads, kSumBlocksAtOnce)
    fused_kernel(const __grid_constant__ ChannelTiles tiles, const __grid_constant__ Terms terms,
                 const __grid_constant__ Finish finish, const __grid_constant__ Pass pass) {
  const TilePlace<kWidth> place(tiles);
  sum_and_finish<2, Terms::kRows, kWidth, C>(tiles, place, terms, finish);
  pass.apply(tiles, place);
}

/// Σ(x − shift) and Σ(x − shift)².
template <class T>
struct Deviations {
  using C = Compute<T>;
  static constexpr int kRows = 4;
  const T* x;
  std::int64_t rows;
  int channels;

  template <int kWidth>
  struct Channels {
    const T* x;
    Lanes<C, kWidth> shift;

    __device__ auto read(std::int64_t e) const { return load_packed<kWidth>(x + e); }
    __device__ void add(const Packed<T, kWidth>& row, Lanes<C, kWidth> (&sums)[2]) const {
      const auto lanes = unpack(row);
      for_lanes<kWidth>([&](int i) {
        const C deviation = lanes[i] - shift[i];
        sums[0][i] += deviation;
        sums[1][i] += deviation * deviation;
      });
    }
  };
  template <int kWidth>
  __device__ Channels<kWidth> start(int channel) const {
    return {x, estimate_mean<kWidth>(x, rows, channels, channel)};
  }
};

template <class T>
struct Statistics {
  using C = Compute<T>;
  const T* x;
  std::int64_t rows;
  int channels;
  double epsilon, momentum;
  const C *running_mean, *running_variance;
  C *mean, *inverse_deviation, *new_running_mean, *new_running_variance;

  __device__ void operator()(int c, const ChannelSums<2>& sums) const {
    const double n = static_cast<double>(rows), shift = static_cast<double>(estimate_mean<1>(x, rows, channels, c)[0]);
    const auto statistics =
        arithmetic::batch_statistics(arithmetic::Moments::from_shifted(shift, sums.of[0], sums.of[1], n), n, epsilon,
                                     momentum, running_mean[c], running_variance[c]);
    mean[c] = statistics.mean;
    inverse_deviation[c] = statistics.inverse_deviation;
    new_running_mean[c] = statistics.running_mean;
    new_running_variance[c] = statistics.running_variance;
  }
};

/// Given the addresses of running statistics, and of what is computed.
template <class T, class Options>
Statistics<T> statistics_of(const T* x, std::int64_t rows, int channels, const Options& options,
                            std::span<void* const> running, std::span<void* const> outputs) {
  using C = Compute<T>;
  return {.x = x,
          .rows = rows,
          .channels = channels,
          .epsilon = options.epsilon,
          .momentum = options.momentum,
          .running_mean = at<const C>(running, 0),
          .running_variance = at<const C>(running, 1),
          .mean = at<C>(outputs, 0),
          .inverse_deviation = at<C>(outputs, 1),
          .new_running_mean = at<C>(outputs, 2),
          .new_running_variance = at<C>(outputs, 3)};
}

/// Where dy passed the activation.
enum class Passed {
  everywhere,  ///< there is none
  by_output,   ///< seen from y, which is read
  recomputed,  ///< seen from the normalised x
};

/// What both passes of the gradient share: dy before the activation.
template <class T, Passed kPassed>
struct Gradient {
  using C = Compute<T>;
  const T *dy, *x;
  const T* y;
  const C *mean, *inverse_deviation, *gamma, *beta;
  ActivationGradient activation;

  template <int kWidth>
  struct Row {
    Packed<T, kWidth> dy, x, y;
  };

  template <int kWidth>
  struct Channels {
    const Gradient& of;
    Lanes<C, kWidth> mean, scale, beta;

    __device__ Row<kWidth> read(std::int64_t e) const {
      Row<kWidth> row{load_packed<kWidth>(of.dy + e), load_packed<kWidth>(of.x + e), {}};
      if constexpr (kPassed == Passed::by_output) row.y = load_packed<kWidth>(of.y + e);
      return row;
    }
    /// dy before the activation, given x.
    __device__ Lanes<C, kWidth> gradient(const Row<kWidth>& row, const Lanes<C, kWidth>& at) const {
      auto lanes = unpack(row.dy);
      if constexpr (kPassed != Passed::everywhere) {
        Lanes<C, kWidth> output;
        if constexpr (kPassed == Passed::by_output) {
          output = unpack(row.y);
        } else {
          for_lanes<kWidth>([&](int i) { output[i] = arithmetic::Normalize<C>{}(at[i], mean[i], scale[i], beta[i]); });
        }
        for_lanes<kWidth>([&](int i) { lanes[i] = of.activation(lanes[i], output[i]); });
      }
      return lanes;
    }
    __device__ void add(const Row<kWidth>& row, Lanes<C, kWidth> (&sums)[2]) const {
      const auto at = unpack(row.x), g = gradient(row, at);
      for_lanes<kWidth>([&](int i) {
        sums[0][i] += g[i];
        sums[1][i] += g[i] * (at[i] - mean[i]);
      });
    }
  };

  static constexpr int kRows = kPassed == Passed::by_output ? 1 : 2;
  template <int kWidth>
  __device__ Channels<kWidth> start(int channel) const {
    Channels<kWidth> channels{*this, load<kWidth>(mean + channel), load<kWidth>(gamma + channel), {}};
    const auto factor = load<kWidth>(inverse_deviation + channel);
    for_lanes<kWidth>([&](int i) { channels.scale[i] *= factor[i]; });
    if constexpr (kPassed == Passed::recomputed) channels.beta = load<kWidth>(beta + channel);
    return channels;
  }
};

template <class C>
struct GradientCoefficients {
  double n;
  const C* inverse_deviation;
  C *dgamma, *dbeta, *dy_mean, *slope;

  __device__ void operator()(int c, const ChannelSums<2>& sums) const {
    const auto gradients =
        arithmetic::normalization_gradients<C>(sums.of[0], sums.of[1], static_cast<double>(inverse_deviation[c]), n);
    dbeta[c] = gradients.dbeta;
    dgamma[c] = gradients.dgamma;
    dy_mean[c] = gradients.dy_mean;
    slope[c] = gradients.slope;
  }
};

/// dx and the residual's gradient.
template <class T, Passed kPassed>
struct GradientPass {
  using C = Compute<T>;
  Gradient<T, kPassed> gradient;
  const C *dy_mean, *slope;
  T* dx;
  T* dresidual;  // if by_output

  template <int kWidth>
  __device__ void apply(const ChannelTiles& tiles, const TilePlace<kWidth>& place) const {
    if (!place.inside) return;
    const auto channels = gradient.template start<kWidth>(place.channel);
    const auto dy_means = load<kWidth>(dy_mean + place.channel), slopes = load<kWidth>(slope + place.channel);
    const std::int64_t last = (tiles.rows - 1) * tiles.channels + 2 * std::int64_t{place.channel};
    for_rows<Gradient<T, kPassed>::kRows>(
        place.row * tiles.channels + place.channel, place.step * tiles.channels, tiles.rows * tiles.channels,
        [&](std::int64_t e) { return channels.read(last - e); },
        [&](std::int64_t e, const auto& row) {
          const auto x = unpack(row.x), g = channels.gradient(row, x);
          Lanes<C, kWidth> lanes;
          for_lanes<kWidth>([&](int i) {
            lanes[i] = arithmetic::NormalizeGradient<C>{}(g[i], x[i], channels.mean[i], channels.scale[i], dy_means[i],
                                                          slopes[i]);
          });
          store<kWidth>(dx + (last - e), lanes);
          if constexpr (kPassed == Passed::by_output) store<kWidth>(dresidual + (last - e), g);
        });
  }
};

/// No pass over the elements after the sums.
struct NoPass {
  template <int kWidth>
  __device__ void apply(const ChannelTiles&, const TilePlace<kWidth>&) const {}
};

/// The tiles of all launches for one width.
struct Plan {
  static constexpr std::int64_t kFusedRows = 1024;  // more take longer in one block than a further launch

  bool fused;
  ChannelTiles sums, elements;

  Plan(std::int64_t rows, std::int64_t channels, int width, int units)
      : fused(rows <= kFusedRows),
        sums(fused ? ChannelTiles(rows, channels, width, 2, 1, 1)
                   : ChannelTiles::for_sums(rows, channels, width, units)),
        elements(rows, channels, width, 32, 2, kBlocksAtOnce * units) {}
};

template <class T>
class Plans {
 public:
  static constexpr int kWidth = kVectorWidth<T>;

  Plans(const Shape& x, int units)
      : channels_(x[-1]), wide_(row_count(x), channels_, kWidth, units), narrow_(row_count(x), channels_, 1, units) {}

  std::int64_t channels() const { return channels_; }
  std::size_t partials_bytes() const {
    return sizeof(Compute<T>) * std::max(partials_size(2, wide_.sums), partials_size(2, narrow_.sums));
  }

  /// Calls f.operator()<width>(plan) with the width that the channels and all addresses allow.
  template <class F>
  void with_width(std::initializer_list<const void*> addresses, const F& f) const {
    const auto aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
    cuda::with_width<kWidth>(channels_ % kWidth == 0 && std::ranges::all_of(addresses, aligned),
                             [&]<int kLanes>() { f.template operator()<kLanes>(kLanes == 1 ? narrow_ : wide_); });
  }

  /// Sums, statistics and the pass over the elements.
  template <class Terms, class Finish, class Pass>
  void run(const StreamHandles& stream, std::initializer_list<const void*> addresses, const Terms& terms,
           const Finish& finish, const Pass& pass, void* workspace) const {
    with_width(addresses, [&]<int kLanes>(const Plan& plan) {
      using C = Compute<T>;
      const LaunchShape shape = plan.sums.launch_shape();
      if (plan.fused) {
        launch(stream, shape, fused_kernel<kLanes, C, Terms, Finish, Pass>, plan.sums, terms, finish, pass);
        return;
      }
      launch(stream, shape, column_sums_kernel<2, Terms::kRows, kLanes, C, Terms, Finish>, plan.sums, terms, finish,
             static_cast<C*>(workspace), stream.arrivals);
      if constexpr (!std::is_same_v<Pass, NoPass>) {
        launch(stream, plan.elements.launch_shape(), element_kernel<kLanes, Pass>, plan.elements, pass);
      }
    });
  }

 private:
  std::int64_t channels_;
  Plan wide_, narrow_;
};

template <class T>
std::unique_ptr<Kernel> forward(const KernelSpec& spec) {
  using C = Compute<T>;
  const BatchNormOptions options = ops::training_options(spec.op);
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  return function_kernel(plans.partials_bytes(), [=, rows = row_count(spec.inputs[0].shape)](
                                                     const StreamHandles& stream, auto inputs, auto outputs,
                                                     void* workspace) {
    auto *const mean = at<C>(outputs, 1), *const inverse_deviation = at<C>(outputs, 2);
    Normalization<T> pass(options, inputs, outputs);
    pass.mean = mean;
    pass.inverse_deviation = inverse_deviation;
    const auto channels = static_cast<int>(plans.channels());
    const auto statistics = statistics_of(pass.x, rows, channels, options, inputs.subspan(3, 2), outputs.subspan(1));
    plans.run(stream, {pass.x, pass.residual, pass.y, pass.gamma, pass.beta, mean, inverse_deviation},
              Deviations<T>{pass.x, rows, channels}, statistics, pass, workspace);
  });
}

template <class T>
std::unique_ptr<Kernel> statistics(const KernelSpec& spec) {
  const BatchNormStatisticsOptions options = spec.attributes<ops::BatchNormStatistics>();
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  return function_kernel(plans.partials_bytes(),
                         [=, rows = row_count(spec.inputs[0].shape)](const StreamHandles& stream, auto inputs,
                                                                     auto outputs, void* workspace) {
                           const auto* const x = at<const T>(inputs, 0);
                           const auto channels = static_cast<int>(plans.channels());
                           const auto finish = statistics_of(x, rows, channels, options, inputs.subspan(1, 2), outputs);
                           plans.run(stream, {x}, Deviations<T>{x, rows, channels}, finish, NoPass{}, workspace);
                         });
}

/// x, γ, β, mean, a statistic [, residual] → y. The statistic is the variance, or 1/√(variance + ε).
template <class T>
std::unique_ptr<Kernel> normalization(const KernelSpec& spec, const BatchNormOptions& options, bool is_variance) {
  using C = Compute<T>;
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  return function_kernel([=](const StreamHandles& stream, auto inputs, auto outputs) {
    const auto* const statistic = at<const C>(inputs, 4);
    Normalization<T> pass(options, inputs, outputs);
    pass.mean = at<const C>(inputs, 3);
    (is_variance ? pass.variance : pass.inverse_deviation) = statistic;
    plans.with_width({pass.x, pass.residual, pass.y, pass.gamma, pass.beta, pass.mean, statistic},
                     [&]<int kLanes>(const Plan& plan) {
                       launch(stream, plan.elements.launch_shape(), element_kernel<kLanes, Normalization<T>>,
                              plan.elements, pass);
                     });
  });
}

template <class T, Passed kPassed>
std::unique_ptr<Kernel> backward(const KernelSpec& spec) {
  using C = Compute<T>;
  constexpr bool kReadsY = kPassed == Passed::by_output;
  const ActivationGradient activation = gradient_of(spec.attributes<ops::BatchNormBackward>().activation);
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  const std::size_t coefficients = 2 * static_cast<std::size_t>(plans.channels());
  const auto n = static_cast<double>(row_count(spec.inputs[0].shape));
  return function_kernel(
      plans.partials_bytes() + coefficients * sizeof(C),
      [=](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
        const auto *const dy = at<const T>(inputs, 0), *const x = at<const T>(inputs, 1);
        const auto* const gamma = at<const C>(inputs, 2);
        const auto *const mean = at<const C>(inputs, 3), *const inverse_deviation = at<const C>(inputs, 4);
        const auto* const y = kReadsY ? at<const T>(inputs, 5) : nullptr;
        const auto* const beta = kPassed == Passed::recomputed ? at<const C>(inputs, 5) : nullptr;
        auto* const dx = at<T>(outputs, 0);
        auto* const dresidual = kReadsY ? at<T>(outputs, 3) : nullptr;
        C* const dy_mean = reinterpret_cast<C*>(static_cast<std::byte*>(workspace) + plans.partials_bytes());
        C* const slope = dy_mean + plans.channels();

        const Gradient<T, kPassed> gradient{.dy = dy,
                                            .x = x,
                                            .y = y,
                                            .mean = mean,
                                            .inverse_deviation = inverse_deviation,
                                            .gamma = gamma,
                                            .beta = beta,
                                            .activation = activation};
        const GradientCoefficients<C> finish{.n = n,
                                             .inverse_deviation = inverse_deviation,
                                             .dgamma = at<C>(outputs, 1),
                                             .dbeta = at<C>(outputs, 2),
                                             .dy_mean = dy_mean,
                                             .slope = slope};
        const GradientPass<T, kPassed> pass{gradient, dy_mean, slope, dx, dresidual};
        plans.run(stream, {dy, x, y, gamma, beta, mean, inverse_deviation, dx, dresidual, dy_mean, slope}, gradient,
                  finish, pass, workspace);
      });
}

}  // namespace

Implementations make_batch_norm(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return forward<T>(spec); });
}

Implementations make_shard_batch_norm(const KernelSpec& spec) { return make_batch_norm(spec); }

Implementations make_batch_norm_statistics(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return statistics<T>(spec); });
}

Implementations make_batch_norm_inference(const KernelSpec& spec) {
  const BatchNormOptions& options = spec.attributes<ops::BatchNormInference>();
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return normalization<T>(spec, options, true); });
}

Implementations make_batch_norm_apply(const KernelSpec& spec) {
  const BatchNormOptions& options = spec.attributes<ops::BatchNormApply>();
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return normalization<T>(spec, options, false); });
}

Implementations make_batch_norm_backward(const KernelSpec& spec) {
  const BatchNormOptions& options = spec.attributes<ops::BatchNormBackward>();
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() {
    // Without an activation, dy is the residual's gradient.
    return options.activation == Activation::none ? backward<T, Passed::everywhere>(spec)
           : options.add                          ? backward<T, Passed::by_output>(spec)
                                                  : backward<T, Passed::recomputed>(spec);
  });
}

}  // namespace braid::cuda
