#pragma once
// The functions that an elementwise expression is made of (ops/elementwise/expression.h), one formula each for both
// backends. On the CPU, those of float are short polynomials without a branch, which compilers vectorise; the C
// library's are called one by one.

#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <type_traits>
#include <utility>

#include "core/base/random.h"

namespace braid {

// Name and number of operands.
// clang-format off
#define BRAID_FOR_EACH_FUNCTION(use) \
  use(add, 2) use(sub, 2) use(mul, 2) use(div, 2) \
  use(minimum, 2) use(maximum, 2) use(clamp_min, 2) use(clamp_max, 2) \
  use(pow, 2) use(neg, 1) use(abs, 1) use(sign, 1) use(exp, 1) use(log, 1) use(sqrt, 1) \
  use(sigmoid, 1) use(tanh, 1) use(gelu, 1) use(gelu_slope, 1) use(gelu_tanh, 1) use(gelu_tanh_slope, 1) \
  use(silu, 1) use(silu_slope, 1) use(leaky_relu, 2) use(leaky_relu_slope, 2) use(softplus, 1) \
  use(bce_with_logits, 2) \
  use(equal, 2) use(greater, 2) use(less, 2) use(maximum_share, 2) use(gate, 2)
// clang-format on

enum class Function : std::uint8_t {
#define BRAID_NAME(name, arity) name,
  BRAID_FOR_EACH_FUNCTION(BRAID_NAME)
#undef BRAID_NAME
};

#define BRAID_ENTRY(name, arity) {#name, arity},
inline constexpr std::pair<std::string_view, int> kFunctionTable[] = {BRAID_FOR_EACH_FUNCTION(BRAID_ENTRY)};
#undef BRAID_ENTRY
inline constexpr int kFunctions = static_cast<int>(std::size(kFunctionTable));

constexpr std::string_view name_of(Function function) { return kFunctionTable[static_cast<int>(function)].first; }
/// Number of operands.
constexpr int arity_of(Function function) { return kFunctionTable[static_cast<int>(function)].second; }

namespace functions {

/// Functions without branches and calls, so that compilers vectorise loops over them. Errors are below 4 units in the
/// last place.
namespace vectorised {

/// eˣ = 2ⁿ·eʳ with x = n·ln 2 + r; the polynomial is that of Cephes (Moshier).
inline float exp(float x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves an integer in the last bits
  const float bounded = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  const float shifted = bounded * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  const float r = bounded - n * 0.693359375f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  // Two factors, because 2ⁿ itself may be too small or too large.
  const std::int32_t half = exponent >> 1;
  const auto power = [](std::int32_t k) { return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23); };
  return (p * (r * r) + r + 1.0f) * power(half) * power(exponent - half);
}

/// log x = k·ln 2 + log m with m in [√½, √2); the polynomial is that of Cephes.
inline float log(float x) {
  const float scale = x < 0x1p-126f ? 0x1p23f : 1.0f;  // makes subnormal numbers normal
  const auto scale_exponent = (std::bit_cast<std::int32_t>(scale) >> 23) - 127;
  const auto bits = std::bit_cast<std::int32_t>(x * scale);
  const auto shift = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits) - 0x3f3504f3u) >> 23;  // relative to √½
  const float k = static_cast<float>(shift - scale_exponent);
  const float m =
      std::bit_cast<float>(static_cast<std::uint32_t>(bits) - (static_cast<std::uint32_t>(shift) << 23)) - 1;
  float p = 7.0376836292e-2f;
  p = p * m + -1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m + -1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m + -1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m + -2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float square = m * m;
  const float y = p * m * square + k * -2.12194440e-4f - 0.5f * square + m + k * 0.693359375f;
  // The added terms are 0 for ordinary numbers; nested conditions would be branches.
  const float unbounded = x < INFINITY ? 0.0f : x, zero = x == 0.0f ? -INFINITY : 0.0f,
              negative = x < 0.0f ? NAN : 0.0f;
  return y + unbounded + zero + negative;
}

/// log(1 + u) of a finite u of at least 0. The second term is what rounding 1 + u loses.
inline float log1p(float u) {
  const float w = 1.0f + u;
  return log(w) - ((w - 1.0f) - u) / w;
}

/// tanh by a polynomial of Cephes near 0, else by eˣ.
inline float tanh(float x) {
  const float magnitude = std::abs(x), s = x * x;
  float p = -5.70498872745e-3f;
  p = p * s + 2.06390887954e-2f;
  p = p * s + -5.37397155531e-2f;
  p = p * s + 1.33314422036e-1f;
  p = p * s + -3.33332819422e-1f;
  const float near = p * s * x + x, far = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
  return magnitude < 0.625f ? near : x < 0.0f ? -far : far;
}

/// erf by a rational approximation, as in Eigen.
inline float erf(float x) {
  const float b = x < -4.0f ? -4.0f : x > 4.0f ? 4.0f : x;
  const float s = b * b;
  float p = -2.72614225801306e-10f;
  p = p * s + 2.77068142495902e-08f;
  p = p * s + -2.10102402082508e-06f;
  p = p * s + -5.69250639462346e-05f;
  p = p * s + -7.34990630326855e-04f;
  p = p * s + -2.95459980854025e-03f;
  p = p * s + -1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * s + -2.13374055278905e-04f;
  q = q * s + -1.68282697438203e-03f;
  q = q * s + -7.37332916720468e-03f;
  q = q * s + -1.42647390514189e-02f;
  return b * (p / q);
}

}  // namespace vectorised

// The library's functions, on a GPU and for double.
#ifdef __CUDA_ARCH__
#define BRAID_FLOAT_FUNCTION(name, x)
#else
#define BRAID_FLOAT_FUNCTION(name, x) \
  if constexpr (std::is_same_v<T, float>) return vectorised::name(x);
#endif
#define BRAID_LIBRARY_FUNCTION(name) \
  template <class T>                 \
  BRAID_HOST_DEVICE T name(T x) {    \
    BRAID_FLOAT_FUNCTION(name, x)    \
    return std::name(x);             \
  }
BRAID_LIBRARY_FUNCTION(exp)
BRAID_LIBRARY_FUNCTION(log)
BRAID_LIBRARY_FUNCTION(log1p)  // for finite numbers of at least 0
BRAID_LIBRARY_FUNCTION(tanh)
BRAID_LIBRARY_FUNCTION(erf)
#undef BRAID_LIBRARY_FUNCTION
#undef BRAID_FLOAT_FUNCTION

template <class T>
BRAID_HOST_DEVICE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// The standard normal distribution's density, and the probability of a value below x.
template <class T>
BRAID_HOST_DEVICE T normal_density(T x) {
  return exp(T(-0.5) * x * x) * T(0.39894228040143267794);
}
template <class T>
BRAID_HOST_DEVICE T normal_probability(T x) {
  return T(0.5) + T(0.5) * erf(x * T(0.70710678118654752440));
}

/// The argument of the hyperbolic tangent that approximates GELU (Hendrycks and Gimpel, 2016), and its derivative.
template <class T>
BRAID_HOST_DEVICE T gelu_inner(T x) {
  return T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
}
template <class T>
BRAID_HOST_DEVICE T gelu_inner_slope(T x) {
  return T(0.79788456080286535588) * (T(1) + T(3 * 0.044715) * x * x);
}

/// log(1 + eˣ), which overflows nowhere.
template <class T>
BRAID_HOST_DEVICE T softplus(T x) {
  const T positive = x < T(0) ? T(0) : x;
  return positive + log1p(exp(x < T(0) ? x : -x));
}

/// The function of operands a and b; functions of one operand ignore b. A NaN stays a NaN; its sign is 0, as in
/// PyTorch.
template <Function kFunction, class T>
BRAID_HOST_DEVICE T evaluate(T a, T b) {
  using enum Function;
  constexpr Function f = kFunction;
  if constexpr (f == add) return a + b;
  if constexpr (f == sub) return a - b;
  if constexpr (f == mul) return a * b;
  if constexpr (f == div) return a / b;
  if constexpr (f == minimum || f == clamp_max) return a < b || a != a ? a : b;
  if constexpr (f == maximum || f == clamp_min) return a > b || a != a ? a : b;
  if constexpr (f == pow) return std::pow(a, b);
  if constexpr (f == neg) return -a;
  if constexpr (f == abs) return std::abs(a);
  if constexpr (f == sign) return a > T(0) ? T(1) : a < T(0) ? T(-1) : T(0);
  if constexpr (f == exp) return functions::exp(a);
  if constexpr (f == log) return functions::log(a);
  if constexpr (f == sqrt) return std::sqrt(a);
  if constexpr (f == sigmoid) return functions::sigmoid(a);
  if constexpr (f == tanh) return functions::tanh(a);
  if constexpr (f == gelu) return a * normal_probability(a);
  if constexpr (f == gelu_slope) return normal_probability(a) + a * normal_density(a);
  if constexpr (f == gelu_tanh) return T(0.5) * a * (T(1) + functions::tanh(gelu_inner(a)));
  if constexpr (f == gelu_tanh_slope) {
    const T t = functions::tanh(gelu_inner(a));
    return T(0.5) * (T(1) + t) + T(0.5) * a * (T(1) - t * t) * gelu_inner_slope(a);
  }
  if constexpr (f == silu) return a / (T(1) + functions::exp(-a));
  if constexpr (f == silu_slope) {
    const T e = functions::exp(-std::abs(a)), large = T(1) / (T(1) + e), small = e * large;  // σ(a) and 1 − σ(a)
    return a < T(0) ? small * (T(1) + a * large) : large * (T(1) + a * small);
  }
  if constexpr (f == leaky_relu) return a > T(0) ? a : a * b;
  if constexpr (f == leaky_relu_slope) return a > T(0) ? T(1) : b;
  if constexpr (f == softplus) return functions::softplus(a);
  // −b·log σ(a) − (1 − b)·log(1 − σ(a)), of terms that do not cancel, also for an infinite a
  if constexpr (f == bce_with_logits) {
    const T weight = a > T(0) ? T(1) - b : -b;
    return functions::softplus(-std::abs(a)) + (weight == T(0) ? T(0) : a * weight);
  }
  if constexpr (f == equal) return a == b ? T(1) : T(0);
  if constexpr (f == greater) return a > b ? T(1) : T(0);
  if constexpr (f == less) return a < b ? T(1) : T(0);
  // The share of a in the gradient of maximum(a, b), or of b in that of minimum(a, b); equal operands share it.
  if constexpr (f == maximum_share) return a == b ? T(0.5) : a < b ? T(0) : T(1);
  // a·b, but 0 where b is 0, whatever a.
  if constexpr (f == gate) return b == T(0) ? T(0) : a * b;
}

/// Calls `visit.operator()<function>()`.
template <class Visit>
BRAID_HOST_DEVICE void with_function(Function function, const Visit& visit) {
  switch (function) {
#define BRAID_CASE(name, arity) \
  case Function::name: return visit.template operator()<Function::name>();
    BRAID_FOR_EACH_FUNCTION(BRAID_CASE)
#undef BRAID_CASE
  }
}

}  // namespace functions
}  // namespace braid
