#pragma once
// Helpers of the functions on tensors.

#include <typeinfo>

#include "autograd/functions/layout.h"
#include "ops/elementwise/expression.h"

namespace braid {

/// Records the ops of a function. Errors name the function, not the op that threw.
template <class Record>
auto called(std::string_view function, const Record& record) {
  const auto renamed = [&](const Error& error) {
    const std::string_view text = error.what();
    return text.starts_with('[') ? message('[', function, text.substr(text.find(']'))) : std::string(text);
  };
  try {
    return record();
  } catch (const ShapeError& error) {
    throw ShapeError(renamed(error));
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;
    throw Error(renamed(error));
  }
}

/// The op of an expression, which f makes of a builder.
template <class F>
OpPtr expression(const F& f) {
  ops::ExpressionBuilder builder;
  return std::make_shared<ops::Elementwise>(builder.finish(f(builder)));
}

/// An axis counted from the first.
inline int axis_of(std::string_view op, const Tensor& x, int axis) {
  const int rank = x.shape().rank();
  BRAID_CHECK(axis >= -rank && axis < rank, ShapeError, "[", op, "] axis ", axis, " is not one of an input of shape ",
              x.shape());
  return axis < 0 ? axis + rank : axis;
}

/// One-hot, with zeros alone for the index that stands for nothing.
Tensor one_hot_or_nothing(const Tensor& index, std::int64_t classes, DType dtype, std::int64_t nothing);

/// The slices of x at these places along an axis counted from the first.
Tensor select_places(const Tensor& x, int axis, const std::vector<std::int32_t>& places);

inline Tensor view(const Tensor& x, const Shape& shape) { return x.shape() == shape ? x : reshape(x, shape); }

inline std::vector<std::int64_t> extents_of(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

}  // namespace braid
