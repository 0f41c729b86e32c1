#include "scheduler/costs/matrix_kernel.h"

#include <doctest/doctest.h>

#include "tests/scheduler/devices.h"

namespace braid::scheduler::testing {
namespace {

/// Ten multiprocessors of 1 GFLOP/s each, which fetch operands as fast as they need them, but for a thousandth.
DeviceInfo fast_cache() {
  DeviceInfo device = ten_multiprocessors();
  device.bytes_per_second = device.bytes_per_second_unit = 1e12;
  return device;
}

MatrixKernel kernel_of(const Work& work, const DeviceInfo& device = fast_cache()) {
  return fastest_matrix_kernel(work, device, device.flops_per_unit, 4);
}

Work product(double rows, double columns, double depth, double products = 1) {
  return {.flops = 2 * products * rows * columns * depth,
          .products = products,
          .rows = rows,
          .columns = columns,
          .depth = depth};
}

constexpr double kTile = 2.0 * 128 * 128;  ///< FLOPs of a tile of 128 x 128, for each step of its depth

}  // namespace

TEST_CASE("a product with many tiles runs at the device's rate and leaves nothing to others") {
  const MatrixKernel kernel = kernel_of(product(1280, 1280, 1000));
  CHECK(kernel.seconds == doctest::Approx(100 * kTile * 1000 / 10e9).epsilon(0.01));
  CHECK(kernel.units == doctest::Approx(10).epsilon(0.01));
}

TEST_CASE("a small product is cut into small tiles, and still leaves most of the device to others") {
  const MatrixKernel kernel = kernel_of(product(128, 128, 1000));
  CHECK(kernel.seconds == doctest::Approx(kTile / 4 * 1000 / 1e9).epsilon(0.01));  // four tiles of a quarter
  CHECK(kernel.units == doctest::Approx(4).epsilon(0.01));
}

TEST_CASE("the last wave of tiles leaves SMs idle, which others can use") {
  // Eleven products of one small tile: two on one SM, one on nine others, each of which is done in half the time.
  const MatrixKernel kernel = kernel_of(product(32, 128, 1000, 11));
  CHECK(kernel.seconds == doctest::Approx(2 * kTile / 4 * 1000 / 1e9).epsilon(0.01));
  CHECK(kernel.units == doctest::Approx(5.5).epsilon(0.01));
}

TEST_CASE("a lone block waits for its operands before it computes; several on an SM hide each other's waits") {
  DeviceInfo device = fast_cache();
  // A tile of 64 x 64 fetches 512 bytes for each step of its depth, in the time of its 8192 FLOPs.
  device.bytes_per_second_unit = 512 / (8192 / device.flops_per_unit);
  const double compute = 8192.0 * 1000 / device.flops_per_unit;
  const MatrixKernel alone = kernel_of(product(64, 64, 1000), device);
  CHECK(alone.seconds == doctest::Approx(2 * compute));
  CHECK(alone.units == doctest::Approx(0.5));
  const MatrixKernel many = kernel_of(product(64, 64, 1000, 80), device);
  CHECK(many.seconds == doctest::Approx(8 * compute));
  CHECK(many.units == doctest::Approx(10));
}

TEST_CASE("where libraries split sums, a deep product with few tiles uses more SMs, for a second kernel") {
  Work work = product(64, 64, 8192);
  const double whole = kernel_of(work).seconds;
  work.splits = true;
  const MatrixKernel split = kernel_of(work);
  CHECK(split.seconds < whole / 7);
  CHECK(split.seconds > whole / 8 + 1e-6);
  CHECK(split.units > 7);
  work.depth = 2047;  // too shallow
  const double shallow = kernel_of(work).seconds;
  work.splits = false;
  CHECK(kernel_of(work).seconds == shallow);
}

TEST_CASE("the memory bounds a product with little arithmetic") {
  Work work = product(1280, 1280, 8);
  work.bytes = 1e10;
  CHECK(kernel_of(work).seconds == doctest::Approx(1e-2));
  CHECK(kernel_of(work).units == doctest::Approx(10));
}

TEST_CASE("depthwise convolutions and products with few vectors are not tiled") {
  CHECK(is_tiled(product(1000, 8, 9)));
  CHECK_FALSE(is_tiled(product(1000, 1, 9, 64)));
  CHECK_FALSE(is_tiled(product(1, 1000, 2048)));
  CHECK_FALSE(is_tiled({.flops = 1e9, .bytes = 1e6}));
}

}  // namespace braid::scheduler::testing
