#pragma once
// Plans a training step with every policy, without running it, for a device you may not have: the scheduler's models
// predict the gain of concurrency and the memory.

#include <optional>
#include <string>
#include <vector>

#include "scheduler/check/asynchronous.h"
#include "scheduler/costs/cluster.h"
#include "scheduler/costs/what_if.h"
#include "scheduler/memory/memory_limit.h"
#include "train/inspect/plan_target.h"
#include "train/inspect/recorded_step.h"
#include "train/report/plan/plan_view.h"

namespace braid {

/// Overrides of the config's settings.
struct PlanRequest {
  std::string device;              ///< see find_plan_target()
  std::vector<int> streams;        ///< numbers to plan for; empty: the config's, or 4 for `auto`
  std::string policy;              ///< the only one to compare with serial; empty: all if `streams` is one number
  std::int64_t batch_size = 0;     ///< batch size of every job; 0: the config's
  bool forward = false;            ///< only the forward pass, as for inference
  std::int64_t memory_limit = 0;   ///< bytes of the arena; 0: the config's
  double host_microseconds = 0;    ///< see Machine
  double wait_microseconds = 0;    ///< likewise; 0: the profile's, if there is one
  scheduler::WhatIf what_if = {};  ///< changes of the device
  int ranks = 1;                   ///< each with the batch size of every job
  std::string strategy;            ///< ParallelOptions::strategy, or all to compare them; empty: the config's
  std::string cluster;             ///< cluster of the ranks: see find_cluster(); needed for more than one
  int steps = 0;                   ///< steps planned as one; 0: the config's
  double straggler = 1;            ///< computing takes one of the ranks this many times as long
  bool asynchronous = false;       ///< simulate asynchronous SGD with parameter servers, too
  double spread = 0.1;             ///< of the durations of its steps: see AsynchronousSgd
  std::optional<int> staleness_bound = {};  ///< likewise
  std::string plan = {};  ///< file with a plan of the step (scheduler::to_json), to show with the others
};

/// PlanRequest::strategy that compares all.
inline constexpr std::string_view kAllStrategies = "all";

/// One policy's plan of the step.
struct PlanRow {
  std::string policy;               ///< and in brackets the one that it kept, or that the memory limit selected
  scheduler::Plan plan;             ///< makespan and bound: predicted; no plan on this number of streams can be faster
  double makespan = 0;              ///< simulated, microseconds
  double utilisation = 0;           ///< share of the capacity that is in use, 0 to 1
  std::vector<std::string> traded;  ///< changes made to fit the memory limit
  bool fits = true;                 ///< the arena is within the limit
  double plan_seconds = 0;          ///< policy, waits, memory and verification

  std::size_t streams() const { return plan.commands.streams.size(); }  ///< available to the policy
};

/// The configured plan by another strategy.
struct StrategyRow {
  std::string name;
  double makespan = 0;    ///< of a step, microseconds
  double sent_bytes = 0;  ///< that a rank sends in a step
  std::int64_t persistent_bytes = 0, arena_bytes = 0;
};

/// What a stage of a pipeline does in a step.
struct StageRow {
  std::string first_layer;  ///< empty for the first stage
  double computing = 0;     ///< microseconds, of its nodes one after another
  int held = 0;             ///< micro-batches whose activations it holds at once
  double sent_bytes = 0;
  std::int64_t persistent_bytes = 0, arena_bytes = 0;
};

struct PlanReport {
  RecordedStep step;
  PlanTarget target;
  TargetCosts costs;
  int steps = 1;               ///< that were recorded
  scheduler::Problem problem;  ///< problem of the recorded step; in a pipeline, of the first stage
  std::vector<scheduler::Problem> later_stages = {};  ///< problems of the others
  std::vector<PlanRow> rows;                          ///< serial comes first
  std::size_t configured = 0;                         ///< the row of the config's or the requested policy
  scheduler::LimitedStep planned;                     ///< plan of that row
  scheduler::MemoryUse memory;                        ///< memory of that row's plan
  std::int64_t memory_limit = 0;                      ///< 0: none
  bool tf32 = false;                                  ///< whether f32 rounds to it
  scheduler::Cluster cluster;                         ///< cluster of several ranks
  scheduler::Scaling scaling;           ///< by the configured policy, from one rank to those requested; empty for one
  std::vector<StageRow> stages = {};    ///< of a pipeline, by the configured policy
  std::vector<StrategyRow> strategies;  ///< on the requested ranks, if several; the first is that of the plan
  std::optional<scheduler::Staleness> asynchronous = {};  ///< on the requested ranks, if requested
  bool has_straggler = false;                             ///< which is its rank 0
};

/// Records one training step of all jobs, or their forward pass, and plans it. Throws Error if there is no such device,
/// policy, model or cluster, or the cluster has fewer devices than ranks.
PlanReport report_plan(RunConfig config, const PlanRequest& request);

/// The configured plan, for drawing.
scheduler::PlanView view_of(const PlanReport& report);

/// Why the configured plan does not fit the memory limit or the device, and what to try; empty if it fits.
std::string shortfall(const PlanReport& report);

/// Text for people, in kTextWidth columns unless `all_columns`, and one line of JSON for programs.
std::string to_text(const PlanReport& report, bool all_columns = false);
std::string to_json(const PlanReport& report);

}  // namespace braid
