#include <doctest/doctest.h>

#include "ops/conv/conv2d.h"
#include "ops/matmul/linear.h"

namespace braid::testing {
namespace {

void check_product(const Work& work, double products, double rows, double columns, double depth, bool splits) {
  CHECK(work.products == products);
  CHECK(work.rows == rows);
  CHECK(work.columns == columns);
  CHECK(work.depth == depth);
  CHECK(work.splits == splits);
  CHECK(work.flops == 2 * products * rows * columns * depth);
}

}  // namespace

TEST_CASE("a convolution and its gradients are products of different extents") {
  const Conv2dOptions options{.padding = 1};
  const ValueDesc x{DType::f32, {4, 32, 32, 64}}, w{DType::f32, {256, 3, 3, 64}}, y{DType::f32, {4, 32, 32, 256}};
  const ValueDesc forward[] = {x, w}, data[] = {y, w}, filter[] = {x, y};
  check_product(ops::Conv2d(options).work(forward, {&y, 1}), 1, 4096, 256, 576, false);
  check_product(ops::Conv2dBackwardData(options, x.shape).work(data, {&x, 1}), 1, 4096, 64, 9 * 256, false);
  check_product(ops::Conv2dBackwardFilter(options, w.shape).work(filter, {&w, 1}), 1, 256, 576, 4096, true);
}

TEST_CASE("every group of a convolution is a product of its own") {
  const Conv2dOptions options{.padding = 1, .groups = 64};
  const ValueDesc x{DType::f32, {1, 8, 8, 64}}, w{DType::f32, {64, 3, 3, 1}};
  const ValueDesc inputs[] = {x, w};
  check_product(ops::Conv2d(options).work(inputs, {&x, 1}), 64, 64, 1, 9, false);
}

TEST_CASE("every pair of matrices is a product of its own") {
  const ValueDesc a{DType::f32, {2, 6, 64, 32}}, b{DType::f32, {2, 6, 64, 48}}, y{DType::f32, {2, 6, 32, 48}};
  const ValueDesc inputs[] = {a, b};
  check_product(ops::Matmul(MatmulOptions{.transpose_a = true}).work(inputs, {&y, 1}), 12, 32, 48, 64, true);
}

TEST_CASE("a linear layer is one product, whose sums may be split") {
  const ValueDesc x{DType::f32, {32, 2048}}, w{DType::f32, {1000, 2048}}, y{DType::f32, {32, 1000}};
  const ValueDesc inputs[] = {x, w};
  check_product(ops::Linear().work(inputs, {&y, 1}), 1, 32, 1000, 2048, true);
}

}  // namespace braid::testing
