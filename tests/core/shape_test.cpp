#include "core/base/shape.h"

#include <doctest/doctest.h>

#include <utility>

#include "core/graph/array.h"

namespace braid {

TEST_CASE("axes of a shape count from both ends, and others are errors") {
  const Shape shape{2, 3, 5};
  CHECK(shape[-1] == 5);
  CHECK(shape.with(-1, 7) == Shape{2, 3, 7});
  CHECK(shape[-3] == 2);
  CHECK(shape.size() == 30);
  for (const int axis : {3, -4}) {
    CHECK_THROWS_WITH_AS(std::ignore = shape[axis], doctest::Contains("[shape] [2,3,5] has no axis"), ShapeError);
  }
  CHECK_THROWS_WITH_AS(std::ignore = Shape{}[0], "[shape] [] has no axis 0: it is a scalar", ShapeError);
}

TEST_CASE("a shape has a number of elements whose bytes can be counted") {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  CHECK(Shape{kLarge, 1 << 19}.size() == kLarge << 19);
  CHECK_THROWS_WITH_AS((Shape{kLarge, 1 << 20}), doctest::Contains("elements, got [1099511627776,1048576]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS((Shape{2 * kLarge}), doctest::Contains("expected extents of at most"), ShapeError);
  CHECK_THROWS_AS((Shape{0, kLarge, kLarge}), ShapeError);
  CHECK_THROWS_AS(Shape{-1}, ShapeError);
  CHECK_THROWS_AS((Shape{1, 1, 1, 1, 1, 1, 1}), ShapeError);
  CHECK(Shape{0, kLarge}.size() == 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which end the program instead
  CHECK_THROWS_WITH_AS(Array(DType::f64, Shape{kLarge, 1 << 19}), doctest::Contains("[array] cannot allocate"),
                       OutOfMemory);
#endif
}

}  // namespace braid
