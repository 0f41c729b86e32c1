#pragma once
// Explains the planning of a step or a part of it: what was recorded, what depends on what, what it costs, why the list
// scheduler started which node when, which waits are kept, where results lie, and how long it takes.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/schedule_log.h"
#include "train/report/plan/plan_view.h"

namespace braid::scheduler {

struct Explanation {
  PlanView view;    ///< the block, planned as a separate step
  ScheduleLog log;  ///< the decisions behind the plan; empty but for the two policies below
};

/// The policy whose decisions are logged, and the one that it begins with: plain_list().
inline constexpr std::string_view kLoggedPolicy = "critical_path", kPlainList = "list";

/// Plans the nodes whose layer is `block` or within it (scheduler/block.h), or the whole step if it is empty, with the
/// costs and the streams of the step. Throws Error, with close names, if there is no such block or policy.
Explanation explain(const PlanView& step, const std::string& block, std::string_view policy = kLoggedPolicy);

/// The text about more nodes would be too long to read.
inline constexpr std::size_t kMostExplained = 120;
/// Throws Error if the block has more; the whole step if it is empty.
void check_readable(const PlanView& step, const std::string& block);
std::string to_text(const Explanation& explanation);

/// The largest blocks of the step whose text can be read. Larger ones are listed by their parts.
std::vector<std::string> readable_blocks(const PlanView& step);
/// A table of them.
std::string list_blocks(const PlanView& step);

/// Everything about one node. Throws Error if there is no such node, or it is never launched.
std::string explain_node(const Explanation& explanation, NodeId node);

/// The first decision in which two plans of the same nodes differ: at its time, one of them starts the node.
struct Difference {
  NodeId node = kNoNode;  ///< kNoNode: there is none
  double time = 0;
  std::string first, second;  ///< what each does with it
};
/// Streams are compared by the order in which they are first used, as their numbers mean nothing.
Difference first_difference(const Explanation& first, const Explanation& second);
/// Makespans, the first difference, and when each node runs.
std::string compare(const Explanation& first, const Explanation& second);

/// One line of JSON: the nodes of the block, and how each policy schedules them. The blocks are those of the step.
std::string to_json(std::span<const Explanation> explanations, std::span<const std::string> blocks);

}  // namespace braid::scheduler
