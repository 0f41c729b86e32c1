#pragma once
// From a step that ran to something to look at: the plan as it was meant, beside the times that it really took.

#include <string>
#include <vector>

#include "runtime/session.h"
#include "scheduler/show/plan_view.h"

namespace braid {

/// The layer of every node on the tape.
std::vector<std::string> layers_of(const Tape& tape);

/// The plan that a step ran by, of step.graph(). Of all the ways to run a node it knows the one that was chosen.
struct PlanInUse {
  scheduler::Plan plan;
  scheduler::Costs costs;
};
PlanInUse plan_in_use(const Step& step);

/// The view of a step that Step::measure() has run, with these times. Title is the caller's.
scheduler::PlanView view_of(Session& session, const Step& step, std::span<const LaunchTime> times);

}  // namespace braid
