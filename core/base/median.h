#pragma once
// The median, our statistic for times: a few outliers do not move it. The quartiles show the spread.

#include <algorithm>
#include <vector>

namespace braid {

struct Quartiles {
  double lower = 0, median = 0, upper = 0;
  friend bool operator==(const Quartiles&, const Quartiles&) = default;
};

/// Quartiles of one or more values. Between two values they are interpolated, so the median of an even number of values
/// is the mean of the middle two.
inline Quartiles quartiles(std::vector<double> values) {
  std::ranges::sort(values);
  const auto at = [&](double fraction) {
    const double place = fraction * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {at(0.25), at(0.5), at(0.75)};
}

/// The median of one or more values.
inline double median(std::vector<double> values) { return quartiles(std::move(values)).median; }

}  // namespace braid
