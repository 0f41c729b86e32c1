#pragma once
// A small part of a step, told step by step: what was recorded, what depends on what, what it costs, why the list
// scheduler took which node when, which waits are kept, where results lie, and what comes of it.

#include <string>
#include <string_view>

#include "scheduler/schedule_log.h"
#include "scheduler/show/plan_view.h"

namespace braid::scheduler {

struct Explanation {
  PlanView view;    ///< of the block, planned as a step of its own
  ScheduleLog log;  ///< how that came about
};

/// Blocks of more nodes than this are refused: nobody would read it.
inline constexpr std::size_t kMostExplained = 120;

/// Plans the nodes whose layer is `block` or within it (scheduler/show/block.h), by `critical_path` and with the costs
/// and the streams of the step. Throws Error if there are none, with close names, or too many.
Explanation explain_block(const PlanView& step, const std::string& block);

std::string to_text(const Explanation& explanation);

/// A table of the largest blocks of the step that can be explained. What is too large is listed by its parts.
std::string list_blocks(const PlanView& step);

}  // namespace braid::scheduler
