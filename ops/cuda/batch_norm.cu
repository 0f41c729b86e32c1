// All passes are bound by memory, so each element is read as rarely as possible, 16 bytes at a time. Training takes
// three launches: sums over tiles of the tensor, one small kernel that turns them into statistics, and the
// normalisation with what follows it; the backward pass has the same form. The last pass goes through the rows from
// the end, which is what the L2 cache still holds. A tensor of few rows takes one launch: a block has all the rows of
// its channels, and reads them from the cache the second time.
//
// Sums are of data shifted by about their mean, as on the CPU (arithmetic::Moments). Per-channel values are of the type
// that the elements are computed in.

#include "ops/batch_norm.h"
#include "ops/common/arithmetic.h"
#include "ops/cuda/channel_tiles.cuh"

namespace braid::cuda {

namespace {

/// Of each kernel on an SM, at least: this caps registers at 128, and the compiler chooses fewer on its own.
constexpr int kBlocksAtOnce = 2;

template <class T>
__device__ T activate(Activation activation, T x) {
  switch (activation) {
    case Activation::relu: return arithmetic::activate<Activation::relu>(x);
    case Activation::relu6: return arithmetic::activate<Activation::relu6>(x);
    default: return x;
  }
}

template <class T>
__device__ T activation_gradient(Activation activation, T dy, T y) {
  switch (activation) {
    case Activation::relu: return arithmetic::activation_gradient<Activation::relu>(dy, y);
    case Activation::relu6: return arithmetic::activation_gradient<Activation::relu6>(dy, y);
    default: return dy;
  }
}

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
  const C *mean, *gamma, *beta;
  const C* inverse_deviation;  // or null: then the variance counts
  const C* variance;
  double epsilon;
  Activation activation;

  template <int kWidth>
  __device__ void apply(const ChannelTiles& tiles, const TilePlace<kWidth>& place) const {
    if (!place.inside) return;
    Lanes<C, kWidth> m, scale, shift;
    for_lanes<kWidth>([&](int i) {
      const int c = place.channel + i;
      m[i] = mean[c];
      scale[i] = inverse_deviation != nullptr ? gamma[c] * inverse_deviation[c]
                                              : arithmetic::normalization_scale(gamma[c], variance[c], epsilon);
      shift[i] = beta[c];
    });
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
          for_lanes<kWidth>([&](int i) { lanes[i] = activate(activation, lanes[i]); });
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
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce)
    fused_kernel(const __grid_constant__ ChannelTiles tiles, const __grid_constant__ Terms terms,
                 const __grid_constant__ Finish finish, const __grid_constant__ Pass pass) {
  const TilePlace<kWidth> place(tiles);
  Lanes<C, kWidth> sums[2] = {};
  sum_rows<2, Terms::kRows>(tiles, place, terms, sums);
  sum_down(sums);
  if (threadIdx.y == 0 && place.inside) {
    for_lanes<kWidth>([&](int i) {
      finish(place.channel + i, ChannelSums<2>{static_cast<double>(sums[0][i]), static_cast<double>(sums[1][i])});
    });
  }
  __syncthreads();  // what finish has written is what the pass reads
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

/// What both passes of the gradient know: dy behind the activation, which is decided by y if there is one, else by
/// computing the output once more.
template <class T>
struct Gradient {
  using C = Compute<T>;
  const T *dy, *x;
  const T* y;  // or null
  const C *mean, *inverse_deviation, *gamma;
  const C* beta;  // or null
  Activation activation;

  template <int kWidth>
  struct Row {
    Packed<T, kWidth> dy, x, y;
  };

  template <int kWidth>
  struct Channels {
    const Gradient& of;
    Lanes<C, kWidth> mean, scale, beta;

    __device__ Row<kWidth> read(std::int64_t e) const {
      Row<kWidth> row;
      row.dy = load_packed<kWidth>(of.dy + e);
      row.x = load_packed<kWidth>(of.x + e);
      if (of.y != nullptr) row.y = load_packed<kWidth>(of.y + e);
      return row;
    }
    /// dy behind the activation, given x.
    __device__ Lanes<C, kWidth> gradient(const Row<kWidth>& row, const Lanes<C, kWidth>& at) const {
      auto lanes = unpack(row.dy);
      if (of.activation == Activation::none) return lanes;
      Lanes<C, kWidth> output;
      if (of.y != nullptr) {
        output = unpack(row.y);
      } else {
        for_lanes<kWidth>([&](int i) { output[i] = arithmetic::Normalize<C>{}(at[i], mean[i], scale[i], beta[i]); });
      }
      for_lanes<kWidth>([&](int i) { lanes[i] = activation_gradient(of.activation, lanes[i], output[i]); });
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

  static constexpr int kRows = 2;
  template <int kWidth>
  __device__ Channels<kWidth> start(int channel) const {
    Channels<kWidth> channels{*this, {}, {}, {}};
    for_lanes<kWidth>([&](int i) {
      const int c = channel + i;
      channels.mean[i] = mean[c];
      channels.scale[i] = gamma[c] * inverse_deviation[c];
      channels.beta[i] = beta != nullptr ? beta[c] : C(0);
    });
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
template <class T>
struct GradientPass {
  using C = Compute<T>;
  Gradient<T> gradient;
  const C *dy_mean, *slope;
  T* dx;
  T* dresidual;  // or null

  template <int kWidth>
  __device__ void apply(const ChannelTiles& tiles, const TilePlace<kWidth>& place) const {
    if (!place.inside) return;
    const auto channels = gradient.template start<kWidth>(place.channel);
    Lanes<C, kWidth> dy_means, slopes;
    for_lanes<kWidth>([&](int i) {
      dy_means[i] = dy_mean[place.channel + i];
      slopes[i] = slope[place.channel + i];
    });
    const std::int64_t last = (tiles.rows - 1) * tiles.channels + 2 * std::int64_t{place.channel};
    for_rows<1>(
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
          if (dresidual != nullptr) store<kWidth>(dresidual + (last - e), g);
        });
  }
};

/// The tiles of all launches for one width.
struct Plan {
  static constexpr std::int64_t kFusedRows = 2048;  // more take longer in one block than two launches more

  bool fused;
  ChannelTiles sums, elements;

  Plan(std::int64_t rows, std::int64_t channels, int width, int units)
      : fused(rows <= kFusedRows),
        sums(fused ? ChannelTiles(rows, channels, width, 2, 1, 1)
                   : ChannelTiles(rows, channels, width, 32, 8, 2 * units)),
        elements(rows, channels, width, 32, 4, 8 * units) {}
};

template <class T>
class Plans {
 public:
  static constexpr int kWidth = kVectorWidth<T>;

  Plans(const Shape& x, int units)
      : channels_(x[x.rank() - 1]),
        wide_(row_count(x), channels_, kWidth, units),
        narrow_(row_count(x), channels_, 1, units) {}

  std::int64_t channels() const { return channels_; }
  std::size_t partials_bytes() const {
    return sizeof(Compute<T>) * std::max(partials_size(2, wide_.sums), partials_size(2, narrow_.sums));
  }

  /// Calls f(std::integral_constant<int, width>, plan) with the width that the channels and all addresses allow.
  template <class F>
  void with_width(std::initializer_list<const T*> addresses, const F& f) const {
    const auto aligned = [](const T* address) { return is_aligned<kWidth>(address); };
    if (channels_ % kWidth == 0 && std::ranges::all_of(addresses, aligned)) {
      f(std::integral_constant<int, kWidth>{}, wide_);
    } else {
      f(std::integral_constant<int, 1>{}, narrow_);
    }
  }

  /// Sums, statistics and the pass over the elements.
  template <class Terms, class Finish, class Pass>
  void run(const StreamHandles& stream, std::initializer_list<const T*> addresses, const Terms& terms,
           const Finish& finish, const Pass& pass, void* workspace) const {
    with_width(addresses, [&](auto width, const Plan& plan) {
      constexpr int kLanes = width;
      using C = Compute<T>;
      if (plan.fused) {
        launch(stream, plan.sums.launch_shape(), fused_kernel<kLanes, C, Terms, Finish, Pass>, plan.sums, terms, finish,
               pass);
        return;
      }
      C* const partials = static_cast<C*>(workspace);
      launch(stream, plan.sums.launch_shape(), partial_sums_kernel<2, Terms::kRows, kLanes, C, Terms>, plan.sums, terms,
             partials);
      finish_sums<2>(stream, plan.sums, static_cast<const C*>(partials), finish);
      launch(stream, plan.elements.launch_shape(), element_kernel<kLanes, Pass>, plan.elements, pass);
    });
  }

 private:
  std::int64_t channels_;
  Plan wide_, narrow_;
};

template <class T>
std::unique_ptr<Kernel> forward(const KernelSpec& spec) {
  using C = Compute<T>;
  const BatchNormOptions options = spec.attributes<ops::BatchNorm>();
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  return function_kernel(plans.partials_bytes(),
                         [=, rows = row_count(spec.inputs[0].shape)](const StreamHandles& stream, auto inputs,
                                                                     auto outputs, void* workspace) {
                           const auto channels = static_cast<int>(plans.channels());
                           const Normalization<T> pass{.x = at<const T>(inputs, 0),
                                                       .residual = options.add ? at<const T>(inputs, 5) : nullptr,
                                                       .y = at<T>(outputs, 0),
                                                       .mean = at<const C>(outputs, 1),
                                                       .gamma = at<const C>(inputs, 1),
                                                       .beta = at<const C>(inputs, 2),
                                                       .inverse_deviation = at<const C>(outputs, 2),
                                                       .variance = nullptr,
                                                       .epsilon = options.epsilon,
                                                       .activation = options.activation};
                           const Statistics<T> statistics{.x = pass.x,
                                                          .rows = rows,
                                                          .channels = channels,
                                                          .epsilon = options.epsilon,
                                                          .momentum = options.momentum,
                                                          .running_mean = at<const C>(inputs, 3),
                                                          .running_variance = at<const C>(inputs, 4),
                                                          .mean = at<C>(outputs, 1),
                                                          .inverse_deviation = at<C>(outputs, 2),
                                                          .new_running_mean = at<C>(outputs, 3),
                                                          .new_running_variance = at<C>(outputs, 4)};
                           plans.run(stream, {pass.x, pass.residual, pass.y}, Deviations<T>{pass.x, rows, channels},
                                     statistics, pass, workspace);
                         });
}

/// x, γ, β, mean, a statistic [, residual] → y. The statistic is the variance, or what has become of it already.
template <class T>
std::unique_ptr<Kernel> normalization(const KernelSpec& spec, const BatchNormOptions& options, bool is_variance) {
  using C = Compute<T>;
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  return function_kernel([=](const StreamHandles& stream, auto inputs, auto outputs) {
    const C* const statistic = at<const C>(inputs, 4);
    const Normalization<T> pass{.x = at<const T>(inputs, 0),
                                .residual = options.add ? at<const T>(inputs, 5) : nullptr,
                                .y = at<T>(outputs, 0),
                                .mean = at<const C>(inputs, 3),
                                .gamma = at<const C>(inputs, 1),
                                .beta = at<const C>(inputs, 2),
                                .inverse_deviation = is_variance ? nullptr : statistic,
                                .variance = is_variance ? statistic : nullptr,
                                .epsilon = options.epsilon,
                                .activation = options.activation};
    plans.with_width({pass.x, pass.residual, pass.y}, [&](auto width, const Plan& plan) {
      constexpr int kLanes = width;
      launch(stream, plan.elements.launch_shape(), element_kernel<kLanes, Normalization<T>>, plan.elements, pass);
    });
  });
}

template <class T>
std::unique_ptr<Kernel> inference(const KernelSpec& spec) {
  return normalization<T>(spec, spec.attributes<ops::BatchNormInference>(), true);
}

template <class T>
std::unique_ptr<Kernel> apply(const KernelSpec& spec) {
  return normalization<T>(spec, spec.attributes<ops::BatchNormApply>(), false);
}

template <class T>
std::unique_ptr<Kernel> backward(const KernelSpec& spec) {
  using C = Compute<T>;
  const BatchNormOptions options = spec.attributes<ops::BatchNormBackward>();
  const Plans<T> plans(spec.inputs[0].shape, spec.info->capacity);
  const std::size_t coefficients = 2 * static_cast<std::size_t>(plans.channels());
  const auto n = static_cast<double>(row_count(spec.inputs[0].shape));
  return function_kernel(
      plans.partials_bytes() + coefficients * sizeof(C),
      [=](const StreamHandles& stream, auto inputs, auto outputs, void* workspace) {
        const bool activates = options.activation != Activation::none;
        const bool reads_y = activates && options.add;
        auto* const partials = static_cast<std::byte*>(workspace);
        C* const dy_mean = reinterpret_cast<C*>(partials + plans.partials_bytes());
        C* const slope = dy_mean + plans.channels();
        const Gradient<T> gradient{.dy = at<const T>(inputs, 0),
                                   .x = at<const T>(inputs, 1),
                                   .y = reads_y ? at<const T>(inputs, 5) : nullptr,
                                   .mean = at<const C>(inputs, 3),
                                   .inverse_deviation = at<const C>(inputs, 4),
                                   .gamma = at<const C>(inputs, 2),
                                   .beta = activates && !options.add ? at<const C>(inputs, 5) : nullptr,
                                   .activation = options.activation};
        const GradientCoefficients<C> finish{.n = n,
                                             .inverse_deviation = gradient.inverse_deviation,
                                             .dgamma = at<C>(outputs, 1),
                                             .dbeta = at<C>(outputs, 2),
                                             .dy_mean = dy_mean,
                                             .slope = slope};
        const GradientPass<T> pass{gradient, dy_mean, slope, at<T>(outputs, 0), reads_y ? at<T>(outputs, 3) : nullptr};
        plans.run(stream, {gradient.dy, gradient.x, gradient.y, pass.dx, pass.dresidual}, gradient, finish, pass,
                  workspace);
      });
}

}  // namespace

Implementations make_batch_norm(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return forward<T>(spec); });
}

Implementations make_batch_norm_inference(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return inference<T>(spec); });
}

Implementations make_batch_norm_apply(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return apply<T>(spec); });
}

Implementations make_batch_norm_backward(const KernelSpec& spec) {
  return for_any_float(spec.inputs[0].dtype, [&]<class T>() { return backward<T>(spec); });
}

}  // namespace braid::cuda
