#pragma once
// The staleness of updates in asynchronous SGD, as text and as numbers.

#include <string>

#include "scheduler/check/asynchronous.h"
#include "train/report/plan/scaling.h"

namespace braid::scheduler {

/// Batches per second of all ranks, if they wait for each other and if not, and the updates by staleness in at most 16
/// rows.
std::string staleness_tables(const ScaleRow& synchronous, const Staleness& asynchronous, bool has_straggler);

Json to_json(const Staleness& staleness);

}  // namespace braid::scheduler
