#pragma once
// A training step planned, not run, for a device that need not be there: what concurrency would bring on it, by the
// models of the scheduler, and what memory it would take.

#include <string>
#include <vector>

#include "scheduler/plan_view.h"
#include "scheduler/profile.h"
#include "train/config.h"

namespace braid {

/// What takes the place of the config's settings.
struct PlanRequest {
  std::string device;           ///< as in configs, a name of known_devices.h, or a file that describes a device
  int streams = 0;              ///< 0: the config's, or 4 if it leaves the choice to measurements
  std::string policy;           ///< empty: the config's
  std::int64_t batch_size = 0;  ///< of every job; 0: the config's
};

struct PlanReport {
  std::vector<std::string> models;  ///< one per job
  std::vector<Shape> inputs;        ///< [N,H,W,C] of each
  std::string device;
  int capacity = 1;
  /// Where workspaces and the ways to run a node come from; or why there are none, and times alone are planned.
  bool has_kernels = false;
  std::string kernels;

  std::int32_t nodes = 0;
  std::int32_t convolutions = 0;  ///< nodes: forward, backward-data and backward-filter
  std::int32_t candidates = 0;    ///< ways to run them, all together; 0 without kernels
  std::string policy;
  std::size_t streams = 0, used_streams = 0;
  std::int32_t waits = 0;
  double makespan = 0, serial_makespan = 0;  ///< predicted, microseconds
  LowerBound bound;
  std::int64_t arena_bytes = 0;
  std::int64_t serial_arena_bytes = 0;
  std::vector<std::int64_t> workspace_bytes;  ///< per stream
  ProfileUse measured;                        ///< if the session is told costs
  double plan_seconds = 0;                    ///< to make both plans, kernels included
};

/// Records one training step of all jobs and plans it. If there is a view, it becomes that of the plan. Throws Error if
/// there is no such device, policy or model.
PlanReport report_plan(const RunConfig& config, const PlanRequest& request, PlanView* view = nullptr);

/// For people and for programs (one line of JSON).
std::string to_text(const PlanReport& report);
std::string to_json(const PlanReport& report);

}  // namespace braid
