#pragma once
// Which sums over ranks are communicated together. A bucket costs messages of its own; a large one waits for its last
// gradient while the link stands still.

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/collective_call.h"

namespace braid::scheduler {

/// What becomes a sum or mean over all ranks.
struct Summand {
  double ready = 0;             ///< when a rank has computed its part, microseconds from the start of the step
  double after = 0;             ///< what needs the sum takes at least this long, microseconds
  Communication communication;  ///< alone
};

/// How many of them, in this order, go into each bucket, so that what follows the last bucket ends the soonest if one
/// link carries bucket after bucket. Dynamic programming over the last bucket: Shi, Chu and Li, "MG-WFBP: efficient
/// data communication for distributed synchronous SGD algorithms" (2019).
std::vector<std::int32_t> merge(std::span<const Summand> summands, const Link& link);

}  // namespace braid::scheduler
