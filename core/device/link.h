#pragma once
// The cost of sending to another rank. Links are a resource that a step occupies, like cores.

#include <cstdint>
#include <limits>

#include "core/base/error.h"

namespace braid {

/// A message of n bytes takes latency_seconds + n / bytes_per_second.
struct Link {
  double latency_seconds = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();
  /// Cores or SMs that are busy meanwhile, for example where ranks share memory; 0 where the network moves the bytes.
  int units = 0;
  /// How many times the bytes of an all-reduce pass the link in either direction, if parameter servers on the hosts of
  /// all ranks add (Li et al., 2014): each rank sends its summands whole, and receives the sums. 0: there are none.
  double server_share = 0;
  friend bool operator==(const Link&, const Link&) = default;
};

/// Ranks that make collectives together: Communicator::among.
struct RankGroup {
  std::int64_t ranks = 1, stride = 1;
  friend bool operator==(const RankGroup&, const RankGroup&) = default;
};

/// Throws Error unless its numbers are positive; the latency may be 0.
inline void check_link(const Link& link) {
  BRAID_CHECK(link.latency_seconds >= 0 && link.bytes_per_second > 0 && link.units >= 0, Error,
              "[link] expected a latency of at least 0 s, a bandwidth above 0 bytes/s and units of at least 0, got ",
              link.latency_seconds, " s, ", link.bytes_per_second, " bytes/s and ", link.units);
}

}  // namespace braid
