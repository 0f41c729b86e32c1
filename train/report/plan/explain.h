#pragma once
// Explains the planning of a small part of a step: what was recorded, what depends on what, what it costs, why the list
// scheduler started which node when, which waits are kept, where results lie, and how long it takes.

#include <string>

#include "scheduler/schedule_log.h"
#include "train/report/plan/plan_view.h"

namespace braid::scheduler {

struct Explanation {
  PlanView view;    ///< the block, planned as a separate step
  ScheduleLog log;  ///< the decisions behind the plan
};

/// Larger blocks are refused: the text would be too long to read.
inline constexpr std::size_t kMostExplained = 120;

/// Plans the nodes whose layer is `block` or within it (scheduler/block.h), by `critical_path` and with the costs
/// and the streams of the step. Throws Error if there are none, with close names, or too many.
Explanation explain_block(const PlanView& step, const std::string& block);

std::string to_text(const Explanation& explanation);

/// A table of the largest blocks of the step that can be explained. Blocks that are too large are listed by their
/// parts.
std::string list_blocks(const PlanView& step);

}  // namespace braid::scheduler
