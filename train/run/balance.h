#pragma once
// Chooses the number of steps that each of several jobs takes per round. A round is as long as its longest job, so
// small networks take several steps alongside one step of a large one. That keeps concurrent work available for the
// whole round.

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

/// seconds: the time of one step of each job alone. fixed: steps per round from the config, 0 for automatic. An
/// automatic job gets the number of steps closest to the time of the longest job, from 1 to 16: plans grow with steps.
std::vector<std::int64_t> balanced_steps(std::span<const double> seconds, std::span<const int> fixed);

}  // namespace braid
