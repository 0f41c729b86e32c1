#include "ops/norm/normalization_gradient.h"

#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/expression.h"
#include "ops/elementwise/reduce.h"

namespace braid::ops {

namespace {

/// A value recorded from others by the operators of C++.
struct Derived {
  GradientContext* context;
  ValueId value = kNoValue;

  bool exists() const { return value != kNoValue; }
  Derived apply(Function function, Derived other) const {
    return {context, context->record(elementwise(function), {value, other.value})};
  }
  Derived operator-() const { return {context, context->record(elementwise(Function::neg), {value})}; }
  friend Derived operator*(Derived a, Derived b) { return a.apply(Function::mul, b); }
  friend Derived operator-(Derived a, Derived b) { return a.apply(Function::sub, b); }
  /// Missing values are zero.
  friend Derived operator+(Derived a, Derived b) {
    return !a.exists() ? b : !b.exists() ? a : a.apply(Function::add, b);
  }
};

}  // namespace

NormalizationSecond differentiate(GradientContext& context, const NormalizationBackward& backward) {
  const DType dtype = context.desc(backward.inverse_deviation).dtype;
  const auto derived = [&](ValueId value) { return Derived{&context, cast(context, value, dtype)}; };
  const auto mean = [&](Derived v) {
    return derived(context.record(std::make_shared<Reduce>(ReduceKind::mean, backward.group_axes, true), {v.value}));
  };
  const Derived dy = derived(backward.dy), scale = derived(backward.scale), r = derived(backward.inverse_deviation);
  const Derived normalised = (derived(backward.x) - derived(backward.mean)) * r;
  const auto project = [&](Derived v) { return v - mean(v) - normalised * mean(v * normalised); };

  Derived of_dy = derived(kNoValue), of_x = of_dy, of_scale = of_dy;
  if (const Derived u = derived(backward.of_dx); u.exists()) {
    // Σ u·dx = n·r·(c − a·b) for every group of n elements, with g = γ·dy, c the covariance of g and u, and a and b
    // their means with x̂. It is symmetric in g and u.
    const Derived g = dy * scale, of_g = r * project(u);
    const Derived a = mean(g * normalised), b = mean(u * normalised), c = mean(g * u) - mean(g) * mean(u);
    of_dy = of_g * scale;
    of_scale = dy * of_g;
    of_x = -(r * r) * (normalised * (c - a * b) + b * project(g) + a * project(u));
  }
  if (const Derived of_dscale = derived(backward.of_scale); of_dscale.exists()) {
    of_dy = of_dy + of_dscale * normalised;
    of_x = of_x + r * project(of_dscale * dy);
  }
  if (const Derived of_dshift = derived(backward.of_shift); of_dshift.exists()) {
    const auto repeated = std::make_shared<Elementwise>(Expression{}, context.desc(backward.x).shape);
    of_dy = of_dy + derived(context.record(repeated, {of_dshift.value}));
  }
  if (of_scale.exists()) {
    of_scale = derived(
        context.record(std::make_shared<Reduce>(ReduceKind::sum, backward.scale_axes, false), {of_scale.value}));
  }
  const DType of_images = context.desc(backward.x).dtype;
  return {cast(context, of_dy.value, of_images), cast(context, of_x.value, of_images), of_scale.value};
}

}  // namespace braid::ops
