// Functions that change the places of elements, against values worked out by hand, and what they refuse.

#include <doctest/doctest.h>

#include <algorithm>

#include "autograd/functions.h"
#include "runtime/session.h"

using namespace braid;

namespace {

std::vector<float> counting(std::int64_t count) {
  std::vector<float> list;
  for (std::int64_t i = 0; i < count; ++i) list.push_back(static_cast<float>(i));
  return list;
}

Array counted(const Shape& shape) { return Array::from(counting(shape.size()), shape); }

std::vector<float> floats_of(const Tensor& tensor) {
  const Array array = tensor.array();
  return {array.as<float>().begin(), array.as<float>().end()};
}

struct LayoutFixture {
  Session session{{.device = "cpu", .streams = 1, .threads = 1}};
  Step step = session.step();
};

using Floats = std::vector<float>;

}  // namespace

TEST_CASE_FIXTURE(LayoutFixture, "axes are permuted and swapped, and count from the end if negative") {
  const Tensor x = counted({2, 3, 1});
  const Tensor y = permute(x, {-1, 1, 0}), z = transpose(x, 0, -2), same = permute(x, {0, 2, 1});
  CHECK(y.shape() == Shape{1, 3, 2});
  CHECK(z.shape() == Shape{3, 2, 1});
  CHECK(same.shape() == Shape{2, 1, 3});
  CHECK(session.tape().graph().node(session.tape().graph().value(same.id()).producer).is_view);
  for (const Tensor& tensor : {y, z, same}) tensor.keep();
  CHECK(floats_of(y) == Floats{0, 3, 1, 4, 2, 5});
  CHECK(floats_of(z) == Floats{0, 3, 1, 4, 2, 5});
  CHECK(floats_of(same) == counting(6));
}

TEST_CASE_FIXTURE(LayoutFixture, "slices begin and end where Python's do") {
  const Tensor x = counted({2, 4});
  const auto columns = [&](std::int64_t begin, std::int64_t end) { return slice(x, 1, begin, end).keep(); };
  const Tensor middle = columns(1, 3), last = slice(x, -1, -2).keep(), beyond = columns(2, 9), none = columns(3, 1);
  CHECK(slice(x, 0, 0).id() == x.id());
  CHECK(floats_of(middle) == Floats{1, 2, 5, 6});
  CHECK(floats_of(last) == Floats{2, 3, 6, 7});
  CHECK(floats_of(beyond) == Floats{2, 3, 6, 7});
  CHECK(none.shape() == Shape{2, 0});
}

TEST_CASE_FIXTURE(LayoutFixture, "what is split joins again along any axis, with its gradient") {
  Parameter& x = session.add("x", {DType::f32, {2, 3, 2}}, ValueKind::parameter);
  session.write(x, counted({2, 3, 2}));
  const std::vector<Tensor> parts = split(x, {2, 1}, 1);
  const Tensor halves = concat({chunk(x, 2, 0)[1], chunk(x, 2, 0)[0]}, 0);
  const Tensor y = concat({scale(parts[1], 10), parts[0]}, -2);
  const Tensor sum = matmul(reshape(y, {1, 12}), reshape(halves, {12, 1}));
  backward(sum);
  const Tensor dx = gradient(x);
  for (const Tensor& tensor : {y, halves, dx}) tensor.keep();
  CHECK(floats_of(halves) == Floats{6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5});
  CHECK(floats_of(y) == Floats{40, 50, 0, 1, 2, 3, 100, 110, 6, 7, 8, 9});
  // Σ y·halves: x counts once through y and once through halves.
  CHECK(floats_of(dx) ==
        Floats{8 + 100, 9 + 110, 10 + 6, 11 + 7, 60 + 8, 70 + 9, 2 + 40, 3 + 50, 4 + 0, 5 + 1, 0 + 2, 10 + 3});
}

TEST_CASE_FIXTURE(LayoutFixture, "padding surrounds, and cuts if negative; integers too") {
  const Tensor x = counted({2, 2});
  const Tensor y = pad(x, {{1, 0}, {-1, 2}}, 9).keep();
  const Tensor labels = pad(Tensor(Array::from<std::int32_t>({1, 2}, {2})), {{1, 1}}, -100).keep();
  CHECK(floats_of(y) == Floats{9, 9, 9, 1, 9, 9, 3, 9, 9});
  CHECK(std::ranges::equal(labels.array().as<std::int32_t>(), std::vector{-100, 1, 2, -100}));
}

TEST_CASE_FIXTURE(LayoutFixture, "a batch of matrices times one matrix is one product") {
  const Tensor a = counted({2, 2, 2}), b = counted({2, 1});
  const Tensor y = matmul(a, b).keep();
  CHECK(session.tape().graph().node_count() == 3);  // two of them views
  CHECK(y.shape() == Shape{2, 2, 1});
  CHECK(floats_of(y) == Floats{1, 3, 5, 7});
}

TEST_CASE_FIXTURE(LayoutFixture, "what does not fit is refused with what was expected") {
  const Tensor x = counted({2, 4}), image = counted({1, 2, 2, 2}), filter = counted({2, 3, 3, 1});
  CHECK_THROWS_WITH_AS(slice(x, 2, 0), "[slice] axis 2 is not one of an input of shape [2,4]", ShapeError);
  CHECK_THROWS_WITH_AS(transpose(x, 0, -3), "[transpose] axis -3 is not one of an input of shape [2,4]", ShapeError);
  CHECK_THROWS_AS(permute(x, {0}), ShapeError);
  CHECK_THROWS_WITH_AS(split(x, {1, 2}), "[split] expected sizes that add up to 4, axis 1 of [2,4], got 3", ShapeError);
  CHECK_THROWS_AS(split(x, {-1, 5}), ShapeError);
  CHECK_THROWS_WITH_AS(chunk(x, 3), "[chunk] 4 elements do not divide into 3 equal parts (input is [2,4], axis -1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(pad(x, {{1, 1}}), "[pad] expected paddings for 2 axes (input is [2,4]), got 1", ShapeError);
  CHECK_THROWS_AS(pad(x, {{-1, -2}, {0, 0}}), ShapeError);
  CHECK_THROWS_WITH_AS(concat({x, counted({2, 3})}, 0),
                       "[concat] expected inputs that agree in all but axis 0, got [2,4] and [2,3]", ShapeError);
  CHECK_THROWS_WITH_AS(interpolate(image, {}),
                       "[interpolate] expected either a size or a scale above 0, got size 0x0 and scale 0", ShapeError);
  CHECK_THROWS_AS(interpolate(image, {.size = 2, .scale = 2}), ShapeError);
  CHECK_THROWS_AS(interpolate(image, {.scale = 0.1}), ShapeError);
  CHECK_THROWS_WITH_AS(conv_transpose2d(image, filter, {.output_padding = 1}),
                       "[conv_transpose2d] expected an output padding between 0 and the stride 1x1 less 1, got 1x1",
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv_transpose2d(image, filter, {.padding = 2}),
                       "[conv_transpose2d] the padding 2x2 leaves no pixel of the output (input is [1,2,2,2], filter "
                       "[2,3,3,1])",
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      conv_transpose2d(x, filter),
      "[conv_transpose2d] expected an input of shape [N,H,W,C] and a filter of shape [C,R,S,K/groups], "
      "got [2,4] and [2,3,3,1]",
      ShapeError);
  CHECK_THROWS_AS(group_norm(x, 3, counted({4}), counted({4})), ShapeError);
  CHECK_THROWS_WITH_AS(
      layer_norm(x, counted({2}), counted({2})),
      "[layer_norm] expected scale and shift with the last extents of an input of shape [2,4], got [2] "
      "and [2]",
      ShapeError);
}

TEST_CASE_FIXTURE(LayoutFixture, "a transposed convolution has PyTorch's extents and spreads its input") {
  const Tensor x = counted({1, 2, 1, 1}), w = counted({1, 2, 1, 2});
  const Tensor y = conv_transpose2d(x, w, {.stride = {2, 1}}).keep();
  CHECK(y.shape() == Shape{1, 4, 1, 2});
  const Tensor longer = conv_transpose2d(x, w, {.stride = {3, 2}, .output_padding = {2, 1}});
  CHECK(longer.shape() == Shape{1, 7, 2, 2});
  const Tensor biased = conv_transpose2d(x, w, Array::from<float>({10, 20}, {2}), {.stride = {2, 1}}).keep();
  CHECK_THROWS_WITH_AS(conv_transpose2d(x, w, counted({3})), "[conv_transpose2d] expected a bias of shape [2], got [3]",
                       ShapeError);
  CHECK(floats_of(y) == Floats{0, 0, 0, 0, 0, 1, 2, 3});
  CHECK(floats_of(biased) == Floats{10, 20, 10, 20, 10, 21, 12, 23});
}
