#pragma once

#include <doctest/doctest.h>

#include "tests/ops/rounding.h"

namespace braid::testing {

/// Checks that outputs have the shapes of the exact ones, and elements whose differences are within error(output),
/// relative to the largest element and not to one that is small by cancellation.
template <class RelativeError>
void check_close(const std::vector<Array>& outputs, const std::vector<Array>& exact, const RelativeError& error) {
  REQUIRE(outputs.size() == exact.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CAPTURE(i);
    REQUIRE(outputs[i].shape() == exact[i].shape());
    CHECK(largest_difference(outputs[i], exact[i]) <= error(outputs[i]) * std::max(1.0, largest(exact[i])));
  }
}

}  // namespace braid::testing
