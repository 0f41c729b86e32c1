#pragma once
// How many steps each of several jobs takes per turn. A turn is as long as its longest job, so small networks take
// several steps beside one step of a large one: then there is work to run concurrently all the time.

#include <cstdint>
#include <span>
#include <vector>

namespace braid {

/// seconds: what one step of each job takes alone. fixed: steps per turn that the config asks for, 0 for any. Jobs that
/// are free get as many steps as come closest to the longest job, at least 1 and at most 16: plans grow with them.
std::vector<std::int64_t> balanced_steps(std::span<const double> seconds, std::span<const int> fixed);

}  // namespace braid
