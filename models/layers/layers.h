#pragma once
// The layers of models: parameters with their initialisation, and the ops that use them.
//
// Parameters are f32. A layer computes in the type of its input: with f16 or bf16 it casts its weights first, so their
// gradients are f32. So casting its images is enough to train a model in mixed precision.

#include <functional>

#include "models/layers/module.h"
#include "models/layers/options.h"

namespace braid {

/// Normally distributed weights.
void normal(Context& context, Parameter& weight, float deviation, float mean = 0);
/// He initialisation for ReLU networks (He et al., 2015): normal with variance 2 / fan.
void he_normal(Context& context, Parameter& weight, std::int64_t fan);
/// Uniform in ±1/√fan: with the inputs of an output, what PyTorch initialises linear layers with.
void uniform_by_fan(Context& context, Parameter& tensor, std::int64_t fan);
void fill(Context& context, Parameter& tensor, float value);

/// How the weight of a layer starts. A bias starts at zero, but for `uniform`. The fans of a filter [K,R,S,C] are
/// R·S·C and R·S·K/groups.
enum class Init {
  he_fan_out,       ///< normal with variance 2 / fan_out
  he_fan_in,        ///< normal with variance 2 / fan_in
  he_uniform,       ///< uniform with variance 2 / fan_in
  uniform,          ///< uniform in ±1/√fan_in, the bias too: PyTorch's default
  uniform_fan_out,  ///< uniform in ±1/√fan_out
  normal,           ///< normal with deviation 0.01
};

/// Whether a layer adds a bias. Before a batch norm it would have no effect.
enum class Bias { no, yes };

/// What layers with a weight, and perhaps a bias, have in common.
class WeightedLayer : public Module {
 public:
  /// Draws weights and bias again, from the random state in force as the constructor does.
  void initialise();

 protected:
  /// The weight is [K,R,S,C] or [K,C], the bias [out]. `groups` divides the weight's fan-out.
  WeightedLayer(Context& context, const Shape& weight, std::int64_t out, Bias bias, Init init, std::int64_t groups = 1);
  Parameter& weight_;
  Parameter* bias_ = nullptr;

 private:
  Init init_;
  std::int64_t groups_;
};

/// Convolution. [N,H,W,in] → [N,P,Q,out]
class ConvLayer final : public WeightedLayer {
 public:
  using Options = Conv2dOptions;
  ConvLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel, const Conv2dOptions& options = {},
            Bias bias = Bias::no, Init init = Init::he_fan_out);
  Tensor forward(const Tensor& x) override;

 private:
  Conv2dOptions options_;
};

/// Transposed convolution, whose fans are as PyTorch counts them: R·S·out/groups and R·S·in.
/// [N,H,W,in] → [N,P,Q,out]
class ConvTransposeLayer final : public WeightedLayer {
 public:
  using Options = ConvTranspose2dOptions;
  ConvTransposeLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel,
                     const ConvTranspose2dOptions& options = {}, Bias bias = Bias::no, Init init = Init::uniform);
  Tensor forward(const Tensor& x) override;

 private:
  ConvTranspose2dOptions options_;
};

/// The scale and the shift of a normalisation.
class NormLayer : public Module {
 public:
  /// Scale 1 and shift 0, as the constructor does.
  void initialise();

 protected:
  /// Leaves the call of initialise() to the derived class.
  NormLayer(Context& context, const Shape& extents);
  Parameter& scale_;
  Parameter& shift_;
};

/// Normalisation of each image over all pixels and the channels of a group; with as many groups as channels, it is
/// instance normalisation. [N,...,channels]
class GroupNormLayer final : public NormLayer {
 public:
  GroupNormLayer(Context& context, std::int64_t groups, std::int64_t channels, double epsilon = 1e-5)
      : NormLayer(context, {channels}), groups_(groups), epsilon_(epsilon) {
    initialise();
  }
  Tensor forward(const Tensor& x) override {
    const Tensor shift = shift_;  // recorded before the scale by every compiler
    return group_norm(x, groups_, scale_, shift, epsilon_);
  }

 private:
  std::int64_t groups_;
  double epsilon_;
};

/// Normalisation of each place over the last axes, which have these extents.
class LayerNormLayer final : public NormLayer {
 public:
  LayerNormLayer(Context& context, const Shape& extents, double epsilon = 1e-5)
      : NormLayer(context, extents), epsilon_(epsilon) {
    initialise();
  }
  LayerNormLayer(Context& context, std::int64_t channels, double epsilon = 1e-5)
      : LayerNormLayer(context, Shape{channels}, epsilon) {}
  Tensor forward(const Tensor& x) override {
    const Tensor shift = shift_;  // recorded before the scale by every compiler
    return layer_norm(x, scale_, shift, epsilon_);
  }

 private:
  double epsilon_;
};

/// Batch normalisation over channels, fused with the residual addition and the activation that may follow.
class BatchNormLayer final : public NormLayer {
 public:
  BatchNormLayer(Context& context, std::int64_t channels, Activation activation = Activation::none,
                 double epsilon = 1e-5, double momentum = 0.1);
  /// Scale and running variance 1, shift and running mean 0, as the constructor does.
  void initialise();
  using Module::operator();
  Tensor forward(const Tensor& x) override { return normalise(x, {}); }
  /// act(norm(x) + residual)
  Tensor operator()(const Tensor& x, const Tensor& residual);
  /// Whether it uses its running statistics in training mode too, and leaves them as they are. For a frozen model that
  /// is trained further; whether scale and shift are trained depends on their `trainable`.
  void keep_statistics(bool on = true) { keeps_statistics_ = on; }
  bool trains_scale() const { return scale_.trainable; }
  /// Starts as zero: with zero_scale in a block's last normalisation, the block starts as the identity (Goyal et al.,
  /// 2017).
  void zero_scale() { fill(context(), scale_, 0); }

 private:
  Tensor normalise(const Tensor& x, const Tensor& residual);

  BatchNormOptions options_;
  bool keeps_statistics_ = false;
  Parameter& running_mean_;
  Parameter& running_variance_;
};

/// Calls keep_statistics() on every batch norm in a model whose scale is frozen. Call it after setting `trainable` of
/// parameters.
void keep_frozen_statistics(Module& model);

/// Fully connected layer with bias. [...,in] → [...,out]
class LinearLayer final : public WeightedLayer {
 public:
  LinearLayer(Context& context, std::int64_t in, std::int64_t out, Init init = Init::uniform)
      : WeightedLayer(context, {out, in}, out, Bias::yes, init) {}
  Tensor forward(const Tensor& x) override {
    // Statements: compilers evaluate arguments in different orders, and gradients add up in the order of recording.
    const Tensor bias = cast(*bias_, x.dtype());
    return linear(x, cast(weight_, x.dtype()), bias);
  }
};

/// Drops elements in training mode only.
class DropoutLayer final : public Module {
 public:
  DropoutLayer(Context& context, double p) : Module(context), p_(p), layer_(context.next_layer()) {}
  Tensor forward(const Tensor& x) override { return training() && p_ > 0 ? dropout(x, p_, layer_) : x; }

 private:
  double p_;
  std::uint32_t layer_;
};

class ReluLayer final : public Module {
 public:
  explicit ReluLayer(Context& context) : Module(context) {}
  Tensor forward(const Tensor& x) override { return relu(x); }
};

/// A function of one tensor and options as a layer.
template <class T, Tensor (*kFunction)(const Tensor&, const T&)>
class OptionsLayer final : public Module {
 public:
  using Options = T;
  OptionsLayer(Context& context, const Options& options) : Module(context), options_(options) {}
  Tensor forward(const Tensor& x) override { return kFunction(x, options_); }

 private:
  Options options_;
};
using UpsampleLayer = OptionsLayer<InterpolateOptions, interpolate>;
using MaxPoolLayer = OptionsLayer<PoolOptions, max_pool2d>;
using AvgPoolLayer = OptionsLayer<PoolOptions, avg_pool2d>;

/// A function of one tensor as a layer: append<FunctionLayer>(braid::silu).
class FunctionLayer final : public Module {
 public:
  FunctionLayer(Context& context, std::function<Tensor(const Tensor&)> function)
      : Module(context), function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

/// Steps one after the other: layers, and functions of one tensor.
class Chain : public Module {
 public:
  using Module::Module;
  void then(std::function<Tensor(const Tensor&)> function) { steps_.push_back(std::move(function)); }
  /// The layer is this module's, or lives as long.
  void then(Module& layer) {
    steps_.emplace_back([&layer](const Tensor& x) { return layer(x); });
  }
  /// Makes the layer.
  template <class Layer, class... Arguments>
  Layer& then(std::string_view name, Arguments&&... arguments) {
    Layer& layer = add<Layer>(name, std::forward<Arguments>(arguments)...);
    then(layer);
    return layer;
  }
  Tensor forward(const Tensor& x) override { return forward_from(0, steps_.size(), x); }

 protected:
  std::size_t steps() const { return steps_.size(); }
  /// The steps from `first` to before `last`.
  Tensor forward_from(std::size_t first, std::size_t last, const Tensor& x) const;

 private:
  std::vector<std::function<Tensor(const Tensor&)>> steps_;
};

/// The normalisation of a ConvNormLayer, and the names of its two layers.
struct NormOptions {
  Activation activation = Activation::relu;
  double epsilon = 1e-5;
  const char* conv_name = "conv";
  const char* norm_name = "bn";
};

/// Convolution without bias, batch normalisation and activation. [N,H,W,in] → [N,P,Q,out]
class ConvNormLayer final : public Chain {
 public:
  using Options = Conv2dOptions;
  ConvNormLayer(Context& context, std::int64_t in, std::int64_t out, Extent2d kernel, const Conv2dOptions& conv = {},
                const NormOptions& norm = {});
};

/// Layers one after the other, called "0", "1", ….
class Sequential final : public Chain {
 public:
  using Chain::Chain;
  /// Braced lists as in Module::add.
  template <class Layer>
  Layer& append() {
    return note(add<Layer>(next_name()));
  }
  template <class Layer, class A = typename Layer::Options>
  Layer& append(A&& a) {
    return note(add<Layer>(next_name(), std::forward<A>(a)));
  }
  template <class Layer, class A = typename Layer::Options, class B = typename Layer::Options>
  Layer& append(A&& a, B&& b) {
    return note(add<Layer>(next_name(), std::forward<A>(a), std::forward<B>(b)));
  }
  template <class Layer, class A = typename Layer::Options, class B = typename Layer::Options,
            class C = typename Layer::Options>
  Layer& append(A&& a, B&& b, C&& c) {
    return note(add<Layer>(next_name(), std::forward<A>(a), std::forward<B>(b), std::forward<C>(c)));
  }
  template <class Layer, class A = typename Layer::Options, class B = typename Layer::Options,
            class C = typename Layer::Options, class D = typename Layer::Options, class... Rest>
  Layer& append(A&& a, B&& b, C&& c, D&& d, Rest&&... rest) {
    return note(add<Layer>(next_name(), std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d),
                           std::forward<Rest>(rest)...));
  }
  /// Leaves a number out, so that the layers that follow are called as they are in torchvision.
  void skip() { ++next_; }

 private:
  std::string next_name() const { return std::to_string(next_); }
  template <class Layer>
  Layer& note(Layer& layer) {
    ++next_;
    then(layer);
    return layer;
  }

  int next_ = 0;
};

}  // namespace braid
