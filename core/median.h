#pragma once
// The median, our figure for times: a few disturbed measurements do not move it.

#include <algorithm>
#include <vector>

namespace braid {

/// The upper median of one or more values.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace braid
