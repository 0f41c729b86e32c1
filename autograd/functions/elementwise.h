#pragma once
// Arithmetic on elements, with shapes broadcast as in NumPy, and reductions along axes. Values and gradients are those
// of PyTorch's functions of these names. Numbers are attributes of the op, not values.

#include <concepts>
#include <utility>

#include "autograd/tape.h"

namespace braid {

/// A tensor, or a number that is an attribute of the op and not a value.
class Operand {
 public:
  template <std::convertible_to<Tensor> T>
  Operand(T&& tensor) : tensor_(std::forward<T>(tensor)) {}  // NOLINT: implicit
  Operand(double number) : number_(number) {}                // NOLINT: implicit
  bool is_tensor() const { return tensor_.defined(); }
  const Tensor& tensor() const { return tensor_; }
  double number() const { return number_; }

 private:
  Tensor tensor_;
  double number_ = 0;
};

/// x, of any type, as a floating type; x itself if it is of that type. Repeated casts of a tensor in a step are one
/// node.
Tensor cast(const Tensor& x, DType dtype);
Tensor relu(const Tensor& x);
/// min(max(x, 0), 6)
Tensor relu6(const Tensor& x);
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
Tensor pow(const Operand& base, const Operand& exponent);
Tensor abs(const Tensor& x);
/// -1, 0 or 1; without a gradient
Tensor sign(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor tanh(const Tensor& x);
/// log(1 + eˣ)
Tensor softplus(const Tensor& x);
/// x·sigmoid(x)
Tensor silu(const Tensor& x);
/// x where it is positive, else slope·x
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
/// x where it is positive, else alpha·(eˣ − 1)
Tensor elu(const Tensor& x, double alpha = 1);
/// min(max(x + 3, 0), 6) / 6
Tensor hardsigmoid(const Tensor& x);
/// x·hardsigmoid(x)
Tensor hardswish(const Tensor& x);
enum class Gelu { exact, tanh };
/// x·Φ(x), Φ being the normal distribution's, or its approximation by a hyperbolic tangent
Tensor gelu(const Tensor& x, Gelu approximation = Gelu::exact);

// Comparisons are 1 where they hold and 0 elsewhere, in the type of their inputs, and have no gradient. Products of
// them are "and", maxima are "or". An integer tensor is cast to the type of a floating one; integers alone are compared
// exactly and give f32.

Tensor eq(const Operand& a, const Operand& b);
Tensor ne(const Operand& a, const Operand& b);
Tensor lt(const Operand& a, const Operand& b);
Tensor le(const Operand& a, const Operand& b);
Tensor gt(const Operand& a, const Operand& b);
Tensor ge(const Operand& a, const Operand& b);
/// a where the condition is not 0, else b, whatever the other one is there; that gets a gradient of 0.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);

/// Uniform in [0, 1), or standard normal; recorded in the current step. Each call in a step draws new numbers, which
/// depend on the session's seed, and are the same for any number of streams and threads.
Tensor rand(const Shape& shape, DType dtype = DType::f32);
Tensor randn(const Shape& shape, DType dtype = DType::f32);
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);

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
/// The mean squared deviation from the mean, with sums divided by the number of elements less `correction`; and its
/// root, torch.std.
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keep_axes = false);
Tensor stddev(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keep_axes = false);
/// (Σ|x|ᵖ)^(1/p), or max |x| for an infinite p. Its gradient is 0 where it is 0.
Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keep_axes = false);
/// log Σeˣ, which overflows nowhere; -∞ of no elements
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keep_axes = false);

/// Elements, and their places along the axis (i32).
struct TopK {
  Tensor values, indices;
};
/// The k largest (or smallest) elements along an axis, in their order. The first of equal elements comes first; a NaN
/// counts as the largest.
TopK topk(const Tensor& x, std::int64_t k, int axis = -1, bool largest = true);
TopK sort(const Tensor& x, int axis = -1, bool descending = false);
/// The place of the first of the largest (or smallest) elements, i32.
Tensor argmax(const Tensor& x, int axis = -1, bool keep_axis = false);
Tensor argmin(const Tensor& x, int axis = -1, bool keep_axis = false);

/// eˣ / Σeˣ along an axis, and its logarithm
Tensor softmax(const Tensor& x, int axis = -1);
Tensor log_softmax(const Tensor& x, int axis = -1);

}  // namespace braid
