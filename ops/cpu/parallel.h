#pragma once
// Loops over several cores. The pieces a loop is cut into depend on its length alone, never on the number of threads,
// so results do not depend on the width either.

#include <algorithm>
#include <cstdint>

namespace braid::cpu {

/// Calls body(begin, end) for consecutive pieces of at most `grain` that cover [0, size), on up to `width` threads.
/// Pieces may run in any order. An exception in the body must not escape it.
template <class Body>
void parallel_for(int width, std::int64_t size, std::int64_t grain, const Body& body) {
  const std::int64_t pieces = (size + grain - 1) / grain;
  if (width <= 1 || pieces <= 1) {
    for (std::int64_t i = 0; i < pieces; ++i) body(i * grain, std::min(size, (i + 1) * grain));
    return;
  }
#pragma omp parallel for num_threads(width) schedule(static)
  for (std::int64_t i = 0; i < pieces; ++i) body(i * grain, std::min(size, (i + 1) * grain));
}

}  // namespace braid::cpu
