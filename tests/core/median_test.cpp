#include "core/base/median.h"

#include <doctest/doctest.h>

namespace braid {
namespace {

TEST_CASE("the median of an even number of values is the mean of the middle two") {
  CHECK(median({5}) == 5);
  CHECK(median({4, 1}) == 2.5);
  CHECK(median({9, 1, 2}) == 2);
  CHECK(median({7, 1, 100, 2}) == 4.5);
}

TEST_CASE("quartiles are interpolated between the values nearest to them") {
  CHECK(quartiles({3}) == Quartiles{3, 3, 3});
  CHECK(quartiles({5, 1, 2, 4, 3}) == Quartiles{2, 3, 4});
  CHECK(quartiles({1, 2, 3, 4}) == Quartiles{1.75, 2.5, 3.25});
}

}  // namespace
}  // namespace braid
