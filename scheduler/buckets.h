#pragma once
// Which all-reduces are merged into a bucket. Each bucket costs extra messages; a large one waits for its last gradient
// while the link is idle.

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/collective_call.h"

namespace braid::scheduler {

/// A value that becomes a sum or mean over all ranks.
struct Summand {
  double ready = 0;             ///< when a rank has computed its part, microseconds from the start of the step
  double after = 0;             ///< the least duration of what needs the result, microseconds
  Communication communication;  ///< alone
};

/// How many summands, in this order, go into each bucket, so that what follows the last bucket ends earliest if one
/// link carries bucket after bucket. Dynamic programming over the last bucket: Shi, Chu and Li, "MG-WFBP: efficient
/// data communication for distributed synchronous SGD algorithms" (2019).
std::vector<std::int32_t> merge(std::span<const Summand> summands, const Link& link);

}  // namespace braid::scheduler
