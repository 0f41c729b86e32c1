#pragma once

#include <span>

#include "core/base/random.h"

namespace braid::cpu {

/// Standard normal numbers, nine times as fast as Generator::normal(), which would return the same from draw `first` on
/// but for one in ten million, which differs in its last bit. `first` must be a multiple of 4. Uses no other thread.
void draw_normal(const Generator& generator, std::uint64_t first, std::span<float> numbers);

}  // namespace braid::cpu
