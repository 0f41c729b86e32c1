#pragma once
// What the measurements of all backends share.

#include <algorithm>
#include <vector>

#include "core/backend.h"

namespace braid {

/// Sorts by start and counts from the first one, as StreamGroup::measure promises.
inline void count_from_first_start(std::vector<LaunchTime>& times) {
  std::ranges::sort(times, {}, &LaunchTime::start);
  const double first = times.empty() ? 0 : times.front().start;
  for (LaunchTime& time : times) time.start -= first, time.finish -= first;
}

}  // namespace braid
