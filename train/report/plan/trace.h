#pragma once
// Views of a step that ran: the plan with its predicted and its measured times.

#include <string>

#include "runtime/session.h"
#include "train/report/plan/plan_view.h"

namespace braid {

/// The plan of a step, of step.graph(). Its costs contain only the chosen implementation of each node.
struct PlanInUse {
  scheduler::Plan plan;
  scheduler::Costs costs;
};
PlanInUse plan_in_use(const Step& step);

/// The view of a step that Step::measure() has run, with these times; without times, one that run() has. The caller
/// sets the title.
scheduler::PlanView view_of(Session& session, const Step& step, const RunTimes& times = {});

/// The same as a page for a browser, which needs no other file: the streams in time, the graph, the memory.
///     std::ofstream("step.html") << braid::to_html(session, step);
std::string to_html(Session& session, const Step& step, const RunTimes& times = {});

}  // namespace braid
