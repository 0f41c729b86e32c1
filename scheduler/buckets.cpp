#include "scheduler/buckets.h"

#include <algorithm>
#include <limits>

namespace braid::scheduler {

std::vector<std::int32_t> merge(std::span<const Summand> summands, const Link& link) {
  // For the first n summands: the earliest time at which the link has carried them, and how many are in the last
  // bucket.
  struct Best {
    double carried = 0;
    std::int32_t last = 0;
  };
  std::vector<Best> best(summands.size() + 1);
  for (std::size_t n = 1; n < best.size(); ++n) {
    double least = std::numeric_limits<double>::infinity(), ready = 0, after = 0;
    Communication together;
    for (std::size_t first = n; first-- > 0;) {
      const Summand& summand = summands[first];
      ready = std::max(ready, summand.ready);
      after = std::max(after, summand.after);
      if (together.calls.empty()) {
        together = summand.communication;
      } else {
        for (std::size_t i = 0; i < together.calls.size(); ++i) {
          together.calls[i].count += summand.communication.calls[i].count;
        }
      }
      const double carried = std::max(best[first].carried, ready) + 1e6 * seconds(together, link);
      const double end = carried + (n == summands.size() ? after : 0);
      if (end < least) {
        least = end;
        best[n] = {carried, static_cast<std::int32_t>(n - first)};
      }
    }
  }
  std::vector<std::int32_t> buckets;
  for (std::size_t n = summands.size(); n > 0; n -= static_cast<std::size_t>(buckets.back())) {
    buckets.push_back(best[n].last);
  }
  std::ranges::reverse(buckets);
  return buckets;
}

}  // namespace braid::scheduler
