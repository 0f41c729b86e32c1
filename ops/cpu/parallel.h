#pragma once
// Loops over several cores. The pieces a loop is cut into depend on its length alone, never on the number of threads,
// so results do not depend on the width either.

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace braid::cpu {

/// In which order a thread takes its pieces. A second pass over the same data goes backward, because the end of the
/// first pass is what the caches still hold.
enum class Order { forward, backward };

/// Calls body(begin, end) for consecutive pieces of at most `grain` that cover [0, size), on up to `width` threads.
/// A thread gets the same neighbouring pieces in every loop of the same length. An exception in the body must not
/// escape it.
template <Order kOrder = Order::forward, class Body>
void parallel_for(int width, std::int64_t size, std::int64_t grain, const Body& body) {
  const std::int64_t pieces = (size + grain - 1) / grain;
  const auto run = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t piece = kOrder == Order::forward ? i : first + last - 1 - i;
      body(piece * grain, std::min(size, (piece + 1) * grain));
    }
  };
  if (width <= 1 || pieces <= 1) return run(0, pieces);
#pragma omp parallel num_threads(static_cast <int>(std::min <std::int64_t>(width, pieces)))
  {
    const std::int64_t thread = omp_get_thread_num(), threads = omp_get_num_threads();
    run(pieces * thread / threads, pieces * (thread + 1) / threads);
  }
}

}  // namespace braid::cpu
