#include "ops/common/matrix_work.h"

#include <doctest/doctest.h>

#include "ops/conv2d.h"
#include "ops/linear.h"

namespace braid::testing {

TEST_CASE("a matrix product is cut into tiles, and along its sum where that is long") {
  CHECK(ops::matrix_blocks(128, 128, 1) == 1);
  CHECK(ops::matrix_blocks(129, 256, 1023) == 4);
  CHECK(ops::matrix_blocks(1, 1, 4096) == 4);
}

TEST_CASE("a convolution and its gradients are products of different extents") {
  const Conv2dOptions options{.padding = 1};
  const ValueDesc x{DType::f32, {4, 32, 32, 64}}, w{DType::f32, {256, 3, 3, 64}}, y{DType::f32, {4, 32, 32, 256}};
  const ValueDesc forward[] = {x, w}, data[] = {y, w}, filter[] = {x, y};
  CHECK(ops::Conv2d(options).work(forward, {&y, 1}).blocks == 32 * 2);
  CHECK(ops::Conv2dBackwardData(options, x.shape).work(data, {&x, 1}).blocks == 32 * 1 * 2);
  CHECK(ops::Conv2dBackwardFilter(options, w.shape).work(filter, {&w, 1}).blocks == 2 * 5 * 4);
}

TEST_CASE("every group of a convolution is a product of its own") {
  const Conv2dOptions options{.padding = 1, .groups = 64};
  const ValueDesc x{DType::f32, {1, 8, 8, 64}}, w{DType::f32, {64, 3, 3, 1}};
  const ValueDesc inputs[] = {x, w};
  CHECK(ops::Conv2d(options).work(inputs, {&x, 1}).blocks == 64);
}

TEST_CASE("a linear layer has as many blocks as its product") {
  const ValueDesc x{DType::f32, {32, 2048}}, w{DType::f32, {1000, 2048}}, y{DType::f32, {32, 1000}};
  const ValueDesc inputs[] = {x, w};
  CHECK(ops::Linear().work(inputs, {&y, 1}).blocks == 8 * 2);
}

}  // namespace braid::testing
