#pragma once
// The ops as functions on tensors, of which models are written. Each records one node on the tape of its inputs.
// Shapes, dtypes and errors are those of the op (ops/<op>.h). Floating inputs have one type unless it says otherwise;
// cast() brings them to it.

#include <concepts>
#include <limits>
#include <utility>

#include "autograd/tape.h"
#include "ops/conv/conv2d.h"
#include "ops/matmul/linear.h"
#include "ops/norm/batch_norm.h"
#include "ops/pool/interpolate.h"
#include "ops/pool/pool.h"

namespace braid {

/// Any op, including custom ones (braid/op.h) → its first output. Throws Error unless all inputs, at least one, belong
/// to one session.
Tensor apply_op(OpPtr op, std::span<const Tensor> inputs);
inline Tensor apply_op(OpPtr op, std::initializer_list<Tensor> inputs) {
  return apply_op(std::move(op), std::span(inputs.begin(), inputs.size()));
}

/// All outputs of the op that computed this one, in order. Throws Error if it is an input or a parameter.
std::vector<Tensor> outputs_of(const Tensor& output);
/// The same elements, through which no gradient flows; no copy.
Tensor detach(const Tensor& x);

/// Makes the value, of the same type, the parameter's or state's content from here on, in this step and later ones.
/// Custom optimizers end with it. No gradient flows through it.
void assign(Parameter& parameter, const Tensor& value);
/// block(x), whose activations are not kept but recomputed in the backward pass: trades time for memory, as
/// torch.utils.checkpoint. The results have the same bits, but on a GPU a session that is not deterministic, or has a
/// memory limit, may run a recomputed convolution by another algorithm, which rounds differently.
template <class Block>
Tensor checkpoint(Block&& block, const Tensor& x) {
  const ValueId first = x.tape().graph().value_count();
  const Tensor y = block(x);
  BRAID_CHECK(&y.tape() == &x.tape(), Error, "[checkpoint] the block returned a tensor of another session");
  x.tape().recompute_since(first, y.id());
  return y;
}

/// x [N,H,W,C], w [K,R,S,C/groups] → [N,P,Q,K]
Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& options = {});
/// The same with a bias [K]. Its name differs because a braced list is options: conv2d(x, w, {.padding = 1}) has none.
Tensor conv2d_with_bias(const Tensor& x, const Tensor& w, const Tensor& bias, const Conv2dOptions& options);
template <std::convertible_to<Tensor> Bias>
Tensor conv2d(const Tensor& x, const Tensor& w, Bias&& bias, const Conv2dOptions& options = {}) {
  return conv2d_with_bias(x, w, std::forward<Bias>(bias), options);
}
/// The transposed convolution: x [N,H,W,C], w [C,R,S,K/groups] → [N,P,Q,K],
/// P = (H − 1)·stride − 2·padding + dilation·(R − 1) + output_padding + 1. Throws ShapeError if that leaves no pixel or
/// the output padding is not below the stride.
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, const ConvTranspose2dOptions& options = {});
/// The same with a bias [K], in a separate node.
Tensor conv_transpose2d_with_bias(const Tensor& x, const Tensor& w, const Tensor& bias,
                                  const ConvTranspose2dOptions& options);
template <std::convertible_to<Tensor> Bias>
Tensor conv_transpose2d(const Tensor& x, const Tensor& w, Bias&& bias, const ConvTranspose2dOptions& options = {}) {
  return conv_transpose2d_with_bias(x, w, std::forward<Bias>(bias), options);
}
/// x [N,C], w [K,C] → [N,K]
Tensor linear(const Tensor& x, const Tensor& w);
/// x [N,C], w [K,C], bias [K] → [N,K]
Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias);

/// The tensors of one batch normalisation, each [C].
struct BatchNormParameters {
  Parameter& scale;
  Parameter& shift;
  Parameter& running_mean;
  Parameter& running_variance;
};
/// x [...,C] → like x. In training, normalises with the batch's statistics and updates the running ones. With
/// options.add, the residual is added before the activation.
Tensor batch_norm(const Tensor& x, const BatchNormParameters& parameters, const BatchNormOptions& options,
                  bool training, const Tensor& residual = {});

Tensor relu(const Tensor& x);
/// min(max(x, 0), 6)
Tensor relu6(const Tensor& x);
Tensor max_pool2d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);
/// [N,H,W,C] → [N,output.h,output.w,C], windows as in PyTorch
Tensor adaptive_avg_pool2d(const Tensor& x, Extent2d output);
/// [N,H,W,C] → [N,C]
Tensor global_avg_pool(const Tensor& x);
/// factor·x; the factor is an attribute of the op, not a value
Tensor scale(const Tensor& x, double factor);
inline Tensor operator*(const Tensor& x, double factor) { return scale(x, factor); }
inline Tensor operator*(double factor, const Tensor& x) { return scale(x, factor); }
/// factor·x for a scalar of the type that x is computed in (f32 for f16 and bf16), which gets no gradient
Tensor scale(const Tensor& x, const Tensor& factor);
/// Adds one or more tensors of equal shape from first to last.
Tensor sum(std::span<const Tensor> inputs);
inline Tensor sum(std::initializer_list<Tensor> inputs) { return sum(std::span(inputs.begin(), inputs.size())); }
/// Σ sigmoid(weights[i])·inputs[i]: weights [n], and n tensors of equal shape
Tensor weighted_sum(const Tensor& weights, std::span<const Tensor> inputs);
inline Tensor weighted_sum(const Tensor& weights, std::initializer_list<Tensor> inputs) {
  return weighted_sum(weights, std::span(inputs.begin(), inputs.size()));
}
/// Joins along an axis, by default the last one; -1 is the last.
Tensor concat(std::span<const Tensor> inputs, int axis = -1);
inline Tensor concat(std::initializer_list<Tensor> inputs, int axis = -1) {
  return concat(std::span(inputs.begin(), inputs.size()), axis);
}
/// `layer` distinguishes the dropout layers of one model (Context::next_layer), below 65536. Each call in a step draws
/// new numbers.
Tensor dropout(const Tensor& x, double p, std::uint32_t layer);
/// The same elements in another shape; no copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// One of the extents may be -1: whatever is left, as in PyTorch.
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> extents);
/// [N,...] → [N,rest]
Tensor flatten(const Tensor& x);

// Axes, and places along them, count from the end if negative. These functions take every dtype.

/// Axis i of the result is axis axes[i] of x. No copy if only axes of one element move.
Tensor permute(const Tensor& x, std::vector<int> axes);
/// Swaps two axes.
Tensor transpose(const Tensor& x, int a, int b);
/// x[begin:end] along an axis, as in Python: places outside of x count as its ends.
Tensor slice(const Tensor& x, int axis, std::int64_t begin,
             std::int64_t end = std::numeric_limits<std::int64_t>::max());
/// Consecutive slices of these sizes. Throws ShapeError if they do not add up to the axis.
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, int axis = -1);
inline std::vector<Tensor> split(const Tensor& x, std::initializer_list<std::int64_t> sizes, int axis = -1) {
  return split(x, std::span(sizes.begin(), sizes.size()), axis);
}
/// `count` slices of equal size. Throws ShapeError if the axis does not divide.
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, int axis = -1);
/// Elements added at both ends of an axis; negative numbers cut.
struct Padding {
  std::int64_t before = 0;
  std::int64_t after = 0;
};
/// Surrounds x with a value: paddings for each axis, from the first on.
Tensor pad(const Tensor& x, std::span<const Padding> paddings, double value = 0);
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> paddings, double value = 0) {
  return pad(x, std::span(paddings.begin(), paddings.size()), value);
}

/// a [...,M,K], b [...,K,N] → [...,M,N]. The axes before the matrices are equal, or one input has none.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});
/// [N,H,W,C] → [N,P,Q,C], as torch.nn.functional.interpolate with align_corners=False. Throws ShapeError unless either
/// size or scale is given.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);
/// x [N,...,C], scale [C], shift [C] → like x, normalised for each image over all pixels and the channels of a group.
/// With as many groups as channels, it is instance normalisation. Scale and shift are f32 for an x of f16 or bf16.
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift,
                  double epsilon = 1e-5);
/// The same for each place over the last axes, whose extents scale and shift have.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5);

/// x as another floating type; x itself if it is of that type. Repeated casts of a tensor in a step are one node.
Tensor cast(const Tensor& x, DType dtype);
/// The shape of labels for these logits: all axes but the last.
Shape label_shape(const Shape& logits);
/// logits [N,...,K], labels i32 [N,...] → scalar, the mean over the batch. Logits of f16 or bf16 are cast to f32 first.
/// Instead of labels, probabilities of the classes, f32 [N,...,K]; no gradient flows to them.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, double label_smoothing = 0);
/// logits [N,...,K], labels i32 [N,...] → scalar f32 in [0,1]: the share of labels among the k largest logits, which
/// are cast likewise
Tensor accuracy(const Tensor& logits, const Tensor& labels, std::int64_t k = 1);

// Elementwise, with shapes broadcast as in NumPy; values and gradients are those of PyTorch's functions of these names.
// Numbers are attributes of the op, not values.

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator+(const Tensor& a, double b);
inline Tensor operator+(double a, const Tensor& b) { return b + a; }
Tensor operator-(const Tensor& a, double b);
Tensor operator-(double a, const Tensor& b);
Tensor operator/(const Tensor& a, double b);
Tensor operator/(double a, const Tensor& b);
Tensor operator-(const Tensor& a);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
/// min(max(x, least), most)
Tensor clamp(const Tensor& x, double least, double most);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor abs(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
/// log(1 + eˣ)
Tensor softplus(const Tensor& x);
/// x·sigmoid(x)
Tensor silu(const Tensor& x);
/// x where it is positive, else slope·x
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
enum class Gelu { exact, tanh };
/// x·Φ(x), Φ being the normal distribution's, or its approximation by a hyperbolic tangent
Tensor gelu(const Tensor& x, Gelu approximation = Gelu::exact);

/// Axes of a tensor: one, {several}, or none, which means all. Negative ones count from the end: -1 is the last.
class Axes {
 public:
  Axes() = default;
  template <std::integral T>
  requires(!std::same_as<T, bool>) Axes(T axis) : Axes({static_cast<std::int64_t>(axis)}) {}  // NOLINT: implicit
  Axes(std::initializer_list<std::int64_t> axes) : axes_(axes) {}
  /// The axes in the form that the op takes. Throws ShapeError in the name of the function.
  Shape of(std::string_view function, const Shape& shape) const;

 private:
  std::vector<std::int64_t> axes_;
};

/// Reduces along the axes, which the result lacks, or has with extent 1.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
/// The largest and the smallest element; equal ones share the gradient evenly.
Tensor amax(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
Tensor amin(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);
/// eˣ / Σeˣ along an axis, and its logarithm
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

/// How a loss combines the losses of its elements.
enum class LossReduction { mean, sum, none };

// Losses of two tensors of one shape. f16 and bf16 are cast to f32 first.

/// (x − target)²
Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);
/// |x − target|
Tensor l1_loss(const Tensor& x, const Tensor& target, LossReduction reduction = LossReduction::mean);
/// −p·target·log σ(x) − (1 − target)·log(1 − σ(x)), which overflows nowhere. The weight p of positives is 1 unless it
/// is given: a tensor that broadcasts to the logits.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target,
                                        LossReduction reduction = LossReduction::mean,
                                        const Tensor& positive_weight = {});

}  // namespace braid
