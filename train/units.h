#pragma once
// Formats numbers for people.

#include <cmath>
#include <cstddef>
#include <limits>

namespace braid {

constexpr double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Removes the sign of a NaN, which is meaningless but would be printed as "-nan".
inline double unsigned_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

}  // namespace braid
