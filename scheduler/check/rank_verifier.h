#pragma once
// Proves that the plans of several ranks run together: nobody waits for ever, and what ranks do together fits.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/check/simulator.h"

namespace braid::scheduler {

/// Every fault of the plans of all ranks, as sentences; empty if there is none. `role[r]` is the plan that rank r runs.
/// Besides the faults of each plan (verify), these are:
/// - ranks that come to another collective than others, or to the same with other counts, dtypes or members;
/// - a message that the other rank does not take, or takes with another tag or size;
/// - ranks that wait for each other, or for one that has ended.
/// Faults name the ranks and their nodes. All command lists are played at once, each as far as it goes: sends do not
/// buffer, and there are no wildcards, so one play that ends proves that all do.
std::vector<std::string> verify_ranks(std::span<const RankPlan> roles, std::span<const std::int32_t> role);

/// Throws PlanError with the first fault if `ranks` ranks cannot all run this plan.
void require_safe(const RankPlan& plan, int ranks);

}  // namespace braid::scheduler
