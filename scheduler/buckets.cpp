#include "scheduler/buckets.h"

#include <algorithm>
#include <limits>

namespace braid::scheduler {

namespace {

/// Adds a summand to those that are communicated together: the same calls by the same ranks become one.
void add(const Communication& summand, std::vector<Communication>& together) {
  const auto is_like = [&](const Communication& other) {
    const auto& calls = other.calls;
    return other.group == summand.group &&
           std::ranges::equal(calls, summand.calls, {}, &CollectiveCall::kind, &CollectiveCall::kind);
  };
  const auto found = std::ranges::find_if(together, is_like);
  if (found == together.end()) return together.push_back(summand);
  for (std::size_t i = 0; i < found->calls.size(); ++i) found->calls[i].count += summand.calls[i].count;
}

}  // namespace

std::vector<std::int32_t> merge(std::span<const Summand> summands, const Link& link) {
  // Holds for the first n summands the earliest time at which the link has carried them, and how many are in the last
  // bucket.
  struct Best {
    double carried = 0;
    std::int32_t last = 0;
  };
  std::vector<Best> best(summands.size() + 1);
  for (std::size_t n = 1; n < best.size(); ++n) {
    double least = std::numeric_limits<double>::infinity(), ready = 0, after = 0;
    std::vector<Communication> together;
    for (std::size_t first = n; first-- > 0;) {
      const Summand& summand = summands[first];
      ready = std::max(ready, summand.ready);
      after = std::max(after, summand.after);
      add(summand.communication, together);
      double carried = std::max(best[first].carried, ready);
      for (const Communication& each : together) carried += 1e6 * seconds(each, link);
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
