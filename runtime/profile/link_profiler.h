#pragma once
// Measures what communication costs between ranks, and finds the link that plans should assume.

#include <functional>
#include <span>
#include <vector>

#include "core/comm/collective_call.h"
#include "core/comm/communicator.h"

namespace braid {

/// How long a collective takes, counted from when the last rank has called it.
struct CallTime {
  CollectiveCall call;
  double seconds = 0;  ///< median over several runs
};

/// The seconds of a clock that never goes back.
double steady_seconds();

/// Times every collective of steps, at sizes that grow fourfold, from one element for each rank to at most `most_bytes`
/// on a rank. All ranks must call it, while no step runs, and get equal times. `now`: the seconds of this rank's clock.
std::vector<CallTime> time_collectives(Communicator& ranks, std::int64_t most_bytes = std::int64_t{64} << 20,
                                       int runs = 15, const std::function<double()>& now = steady_seconds);

/// The link with which seconds() fits these times on `ranks` ranks best: least squares of logarithms, because times
/// span many orders of magnitude. `start`: where to search from, which also tells Link::units.
Link fitted_link(std::span<const CallTime> times, int ranks, Link start);

}  // namespace braid
