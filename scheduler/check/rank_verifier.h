#pragma once
// Proves that the plans of several ranks can run together: no rank waits forever, and collectives and messages match.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/check/simulator.h"

namespace braid::scheduler {

/// Every fault of the plans of all ranks, as sentences; empty if there is none. `role[r]` is the plan that rank r runs.
/// In addition to the faults of each plan (verify), these are:
/// - ranks that reach different collectives, or the same one with different counts, dtypes or members;
/// - a message that the other rank does not receive, or receives with another tag or size;
/// - ranks that wait for each other, or for one that has ended.
/// Faults name the ranks and their nodes. All command lists are simulated together, each as far as possible: sends do
/// not buffer, and there are no wildcards, so if one interleaving ends, all do.
std::vector<std::string> verify_ranks(std::span<const RankPlan> roles, std::span<const std::int32_t> role);

/// Throws PlanError with the first fault if `ranks` ranks cannot run their plans together: one each, or all the same.
void require_safe(std::span<const RankPlan> plans, int ranks);

}  // namespace braid::scheduler
