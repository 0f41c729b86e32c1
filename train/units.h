#pragma once
// Units for people.

#include <cstddef>

namespace braid {

constexpr double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace braid
