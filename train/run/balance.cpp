#include "train/run/balance.h"

#include <algorithm>
#include <cmath>

namespace braid {

std::vector<std::int64_t> balanced_steps(std::span<const double> seconds, std::span<const int> fixed) {
  constexpr double kMaxSteps = 16;
  double longest = 0;
  for (std::size_t i = 0; i < seconds.size(); ++i) longest = std::max(longest, seconds[i] * std::max(1, fixed[i]));
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    const double fitting = seconds[i] > 0 ? std::clamp(std::round(longest / seconds[i]), 1.0, kMaxSteps) : 1;
    steps.push_back(fixed[i] > 0 ? fixed[i] : static_cast<std::int64_t>(fitting));
  }
  return steps;
}

}  // namespace braid
