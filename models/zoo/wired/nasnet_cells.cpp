#include "models/zoo/wired/nasnet_cells.h"

#include <array>

namespace braid::models {

namespace {

constexpr double kEpsilon = 1e-3;

/// Every other pixel, from the second on, with zeros where the image ends: a depthwise 3x3 convolution with stride 2
/// whose filter is fixed and has its only one in the last corner.
class ShiftedSubsampling final : public Module {
 public:
  ShiftedSubsampling(Context& context, std::int64_t channels)
      : Module(context),
        channels_(channels),
        filter_(add_tensor("filter", {channels, kSide, kSide, 1}, ValueKind::state)) {
    Array values(DType::f32, filter_.shape());
    const std::size_t area = kSide * kSide;
    for (std::size_t i = 0; i < values.as<float>().size(); ++i) values.as<float>()[i] = i % area == area - 1 ? 1 : 0;
    context.write(filter_, values);
  }
  Tensor forward(const Tensor& x) override {
    return conv2d(x, cast(filter_, x.dtype()), {.stride = 2, .padding = 1, .groups = channels_});
  }

 private:
  static constexpr std::int64_t kSide = 3;
  std::int64_t channels_;
  Parameter& filter_;
};

/// Halves height and width: half the channels see the pixels (0,0), (0,2), …, half see (1,1), (1,3), ….
class FactorizedReduction final : public Module {
 public:
  FactorizedReduction(Context& context, std::int64_t in, std::int64_t out)
      : Module(context),
        even_(add<ConvLayer>("path_1.conv", in, out / 2, 1, Conv2dOptions{.stride = 2})),
        shift_(add<ShiftedSubsampling>("path_2.shift", in)),
        odd_(add<ConvLayer>("path_2.conv", in, out - out / 2, 1)),
        norm_(add<BatchNormLayer>("final_path_bn", out, Activation::none, kEpsilon)) {}
  Tensor forward(const Tensor& x) override {
    const Tensor y = relu(x);
    return norm_(concat(std::array{even_(y), odd_(shift_(y))}));
  }

 private:
  ConvLayer& even_;
  ShiftedSubsampling& shift_;
  ConvLayer& odd_;
  BatchNormLayer& norm_;
};

/// ReLU, 1x1 convolution, batch normalisation.
void project(Chain& layers, std::int64_t in, std::int64_t out) {
  layers.then(relu);
  layers.then<ConvLayer>("conv", in, out, 1);
  layers.then<BatchNormLayer>("bn", out, Activation::none, kEpsilon);
}

/// ReLU, separable convolution, batch normalisation, and all of it once more with stride 1.
void separate_twice(Chain& layers, std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride) {
  layers.then(relu);
  for (const int i : {1, 2}) {
    const std::string prefix = message("separable_", i, '.');
    layers.then<ConvLayer>(prefix + "depthwise_conv2d", in, in, kernel,
                           Conv2dOptions{.stride = stride, .padding = kernel / 2, .groups = in});
    layers.then<ConvLayer>(prefix + "pointwise_conv2d", in, out, 1);
    layers.then<BatchNormLayer>(message("bn_sep_", i), out, i == 1 ? Activation::relu : Activation::none, kEpsilon);
    in = out;
    stride = 1;
  }
}

Tensor average(const Tensor& x, std::int64_t stride) {
  return avg_pool2d(x, {.window = 3, .stride = stride, .padding = 1, .count_include_pad = false});
}

Tensor maximum(const Tensor& x) { return max_pool2d(x, {.window = 3, .stride = 2, .padding = 1}); }

}  // namespace

NasNetCell::NasNetCell(Context& context, Cell kind, const CellShape& shape)
    : Module(context), kind_(kind), filters_(shape.filters), project_(add<Chain>("conv_1x1")) {
  project(project_, shape.in, filters_);
  if (shape.previous == Previous::projected) {
    auto& adjust = add<Chain>("conv_prev_1x1");
    project(adjust, shape.previous_in, filters_);
    adjust_previous_ = &adjust;
  } else if (shape.previous == Previous::halved) {
    adjust_previous_ = &add<FactorizedReduction>("prev", shape.previous_in, filters_);
  }
  const auto branch = [&](const char* name, std::int64_t in, std::int64_t kernel, std::int64_t stride) {
    auto& layers = add<Chain>(name);
    separate_twice(layers, in, filters_, kernel, stride);
    return &layers;
  };
  if (kind == Cell::normal) {
    left0_ = branch("comb_iter_0_left", filters_, 5, 1);
    right0_ = branch("comb_iter_0_right", filters_, 3, 1);
    left1_ = branch("comb_iter_1_left", filters_, 5, 1);
    right1_ = branch("comb_iter_1_right", filters_, 3, 1);
  } else {
    const std::int64_t of_previous = shape.previous == Previous::raw ? shape.previous_in : filters_;
    left0_ = branch("comb_iter_0_left", filters_, 5, 2);
    right0_ = branch("comb_iter_0_right", of_previous, 7, 2);
    right1_ = branch("comb_iter_1_right", of_previous, 7, 2);
    right2_ = branch("comb_iter_2_right", of_previous, 5, 2);
  }
  left4_ = branch("comb_iter_4_left", filters_, 3, 1);
}

Tensor NasNetCell::operator()(const Tensor& last, const Tensor& before_last) {
  const Tape::Layer layer(last.tape(), name());
  const Tensor previous = adjust_previous_ == nullptr ? before_last : (*adjust_previous_)(before_last);
  const Tensor x = project_(last);
  // Every operand is a statement: compilers evaluate operands in different orders, and plans follow the order of
  // recording.
  if (kind_ == Cell::normal) {
    const Tensor averaged = average(previous, 1);
    const Tensor right0 = (*right0_)(previous), left0 = (*left0_)(x), sum0 = left0 + right0;
    const Tensor right1 = (*right1_)(previous), left1 = (*left1_)(previous), sum1 = left1 + right1;
    return concat(std::array{previous, sum0, sum1, average(x, 1) + previous, averaged + averaged, (*left4_)(x) + x});
  }
  const Tensor largest = maximum(x);
  const Tensor right0 = (*right0_)(previous), left0 = (*left0_)(x), first = left0 + right0;
  const Tensor second = largest + (*right1_)(previous);
  const Tensor right2 = (*right2_)(previous), averaged = average(x, 2), third = averaged + right2;
  return concat(std::array{second, third, average(first, 1) + second, (*left4_)(first) + largest});
}

}  // namespace braid::models
