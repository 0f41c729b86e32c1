#pragma once
// Small graphs of abstract tasks, for the games of the site: scheduled by a policy or by hand, and plans of them that
// a reader has edited.

#include <string>

#include "core/text/json.h"

namespace braid {

/// Takes, and trusts nothing of,
///   {"graph": {"tasks": [{"name": "a", "microseconds": 2, "width": 1, "bytes": 256, "after": ["b"]}, …],
///              "streams": 2, "capacity": 2, "limit": 1024},
///    "policy": "matching", or "schedule": [{"task": "a", "stream": 0}, …],
///    "edit": {"events": 1, "streams": [[{"launch": 0}, {"record": 0}], …], "offsets": [0, …]},
///    "microseconds": [2, …], "optimum": true}
/// Every task is listed after those that it needs; width, bytes, after and limit (bytes of the arena) may be left out.
/// A task reads the results of those that it needs, and its own result has the same number. The tasks of a schedule are
/// placed one after another, each at the earliest time that its stream, what it needs, and the capacity allow. An edit
/// replaces commands and offsets of that plan. "microseconds" are the durations of the run that is simulated.
///
/// Returns {"plan": as in JSON elsewhere, "faults": sentences, "runs": [{"start": 0, "finish": 2}, …] unless the
/// plan deadlocks, "makespan", "fits": whether the arena keeps to the limit}; if "optimum" is true also "optimum", the
/// least makespan, and "best", a schedule that has it; null where the graph is too large to find out.
/// Throws Error with what is wrong.
std::string plan_tasks(const Json& request);

}  // namespace braid
