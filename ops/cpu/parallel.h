#pragma once
// Loops over several cores. The pieces a loop is cut into depend on its length alone, never on the number of threads,
// so results do not depend on the width either.

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/cpu/thread_pool.h"

namespace braid::cpu {

/// Calls body(begin, end) for consecutive pieces of at most `grain` that cover [0, size), on up to `width` threads.
/// If the body takes a third argument, it gets a number below `width` that no two threads have at a time, to tell their
/// scratch memory apart. Rethrows what the body throws.
template <Order kOrder = Order::forward, class Body>
void parallel_for(int width, std::int64_t size, std::int64_t grain, const Body& body) {
  const std::int64_t pieces = (size + grain - 1) / grain;
  const auto run = [&](std::int64_t piece, int member) {
    const std::int64_t begin = piece * grain, end = std::min(size, begin + grain);
    if constexpr (std::is_invocable_v<const Body&, std::int64_t, std::int64_t, int>) {
      body(begin, end, member);
    } else {
      body(begin, end);
    }
  };
  if (width > 1 && pieces > 1) return ThreadPool::instance().run(width, pieces, kOrder, run);
  for (std::int64_t i = 0; i < pieces; ++i) run(kOrder == Order::forward ? i : pieces - 1 - i, 0);
}

}  // namespace braid::cpu
