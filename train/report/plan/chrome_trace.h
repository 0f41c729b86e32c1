#pragma once
// A plan in the trace-event format of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

#include <string>

#include "train/report/plan/plan_view.h"

namespace braid::scheduler {

/// JSON. Every run is a process: "planned" as simulated, and "measured" if the view has real times. Its tracks are the
/// streams, with a slice for every node and a flow arrow for every wait; the critical path once more on its own; and a
/// counter of the arena's bytes in use. Times in microseconds.
std::string chrome_trace(const PlanView& view);

}  // namespace braid::scheduler
