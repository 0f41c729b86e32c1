#pragma once
// Other shapes and places for the elements of tensors. Axes, and places along them, count from the end if negative.
// All functions take every dtype.

#include <limits>
#include <vector>

#include "autograd/tape.h"

namespace braid {

/// Joins along an axis, by default the last one; -1 is the last.
Tensor concat(std::span<const Tensor> inputs, int axis = -1);
inline Tensor concat(std::initializer_list<Tensor> inputs, int axis = -1) {
  return concat(std::span(inputs.begin(), inputs.size()), axis);
}
/// The same elements in another shape; no copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// One of the extents may be -1: whatever is left, as in PyTorch.
Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> extents);
/// [N,...] → [N,rest]
Tensor flatten(const Tensor& x);

/// Axis i of the result is axis axes[i] of x. No copy if only axes of one element move.
Tensor permute(const Tensor& x, std::vector<int> axes);
/// Swaps two axes.
Tensor transpose(const Tensor& x, int a, int b);
/// Removes an axis of one element, or all of these.
Tensor squeeze(const Tensor& x, int axis);
Tensor squeeze(const Tensor& x);
/// Adds an axis of one element before axis `axis`; -1 appends one.
Tensor unsqueeze(const Tensor& x, int axis);
/// Repeats axes of one element, or new ones in front, up to the shape; -1 keeps an extent. Floating types only.
Tensor expand(const Tensor& x, const std::vector<std::int64_t>& extents);
/// Joins tensors of equal shape along a new axis.
Tensor stack(std::span<const Tensor> inputs, int axis = 0);
inline Tensor stack(std::initializer_list<Tensor> inputs, int axis = 0) {
  return stack(std::span(inputs.begin(), inputs.size()), axis);
}
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
/// What lies outside of x: its mirror image without the border itself, the border, or x again from the other end.
enum class PadMode { reflect, replicate, circular };
/// Surrounds x with its own elements. Throws ShapeError for more of them than there are.
Tensor pad(const Tensor& x, std::span<const Padding> paddings, PadMode mode);
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> paddings, PadMode mode) {
  return pad(x, std::span(paddings.begin(), paddings.size()), mode);
}
/// Surrounds x with a value: paddings for each axis, from the first on.
Tensor pad(const Tensor& x, std::span<const Padding> paddings, double value = 0);
inline Tensor pad(const Tensor& x, std::initializer_list<Padding> paddings, double value = 0) {
  return pad(x, std::span(paddings.begin(), paddings.size()), value);
}

// Elements chosen by indices (i32). An index out of range makes the step throw DataError. Floating inputs have
// gradients.

/// y[…,i,…] = x[…,index[…,i,…],…]: an index of x's rank, at most as long as x along the other axes.
Tensor gather(const Tensor& x, int axis, const Tensor& index);
/// The slices of x at the places along the axis that the list says.
Tensor index_select(const Tensor& x, int axis, const Tensor& index);
/// index [...], weight [V,C] → [...,C]
Tensor embedding(const Tensor& index, const Tensor& weight);
/// index [...] → [...,classes] with 1 at the index and 0 elsewhere
Tensor one_hot(const Tensor& index, std::int64_t classes, DType dtype = DType::f32);
/// Reverses the order of the elements along the axes.
Tensor flip(const Tensor& x, std::span<const int> axes);
inline Tensor flip(const Tensor& x, std::initializer_list<int> axes) {
  return flip(x, std::span(axes.begin(), axes.size()));
}

}  // namespace braid
