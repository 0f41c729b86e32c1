#pragma once
// A plan in the trace-event format of Chrome, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

#include <string>

#include "train/report/plan/plan_view.h"

namespace braid::scheduler {

/// Tracks have unique numbers across processes, and none is 0, which some viewers take for an idle thread: those of
/// process p begin with p times this many.
inline constexpr int kMostTracks = 1000;

/// JSON. Every run is a process: "planned" as simulated, and "measured" if the view has real times. Its tracks are the
/// streams, with a slice for every node and a flow arrow for every wait; the critical path once more on its own; and a
/// counter of the arena's bytes in use. Times in microseconds.
std::string chrome_trace(const PlanView& view);

/// The view of a run that chrome_trace() has written with measured times: streams, widths, waits and times are the
/// trace's, graph and device those of `step`; the arena is planned anew. Throws DataError if the text is no such trace,
/// has no measured times, or is of another step or device.
PlanView read_trace(std::string_view text, PlanView step);

}  // namespace braid::scheduler
