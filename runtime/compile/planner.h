#pragma once
// Compiles a recorded step into an executable. The stages, in planner.cpp from top to bottom:
//
//   divide     over ranks, with the buckets that bucket_choice.h finds (ops/rewrites/partition.h), or over stages of
//              a pipeline (pipeline.h), where every rank makes all plans
//   fuse       chains of elementwise nodes; on one CPU, batch norms with the convolutions that read them
//              (ops/rewrites/fuse.h)
//   cost       analytic or measured durations, and a kernel for every implementation (node_kernels.h)
//   recompute  what the user or a memory limit asks for (scheduler/memory/memory_limit.h), which calls the next four:
//   schedule   a policy gives every node its stream, place and implementation (scheduler/policies/)
//   lower      the schedule becomes lists of commands (scheduler/lowering/)
//   place      every value gets its address in the arena (scheduler/memory/arena.cpp)
//   verify     the plan is free of races, and the plans of all ranks fit together (scheduler/check/)
//   bind       the kernels get their addresses once the arena has one (executable.h)
//
// The first two are the same for all plans of a step; step_plans.h compares plans.

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/rewrites/partition.h"
#include "runtime/compile/executable.h"
#include "runtime/compile/kernel_timer.h"
#include "runtime/compile/ranks/pipeline.h"
#include "scheduler/costs/profile.h"
#include "scheduler/memory/memory_limit.h"

namespace braid {

struct SessionOptions;

/// The graph as it is planned. Values that no node reads are the results of the step: they are kept, and so are single
/// elements, which are too small to reuse.
StepGraph with_kept_results(StepGraph graph);
/// The graph that a session plans: the same, divided over ranks, with nodes fused as suits the device; `direct` is
/// KernelSpec::direct.
RewrittenGraph as_planned(StepGraph graph, const DeviceInfo& device, const ops::Partition& partition = {},
                          bool direct = false);
/// The steps of the stages of a pipeline (pipeline.h), with the order of analytic costs. The context has the recorded
/// parameters.
Pipelined pipelined(const StepGraph& recorded, const ParallelOptions& parallel, const scheduler::CostModel& model,
                    const Context& context);
/// The model that steps of a session are planned by, on this device.
scheduler::CostModel cost_model(const SessionOptions& options, const DeviceInfo& device,
                                const scheduler::Profile* profile = nullptr);
/// The target that a session builds kernels for.
KernelTarget kernel_target(const Context& context, const SessionOptions& options);
/// Widths that the scheduler may choose from: powers of two up to `max_width`, or the fixed one if it is not 0.
std::vector<int> widths(int fixed, int max_width);

/// How to plan a step.
struct PlanSetting {
  std::string policy = "serial";
  int streams = 1;
  int width = 0;  ///< width of every node; 0: the scheduler chooses for each

  /// A name such as "critical_path on 2 streams of one core each".
  std::string name() const;
};

struct PlannedStep {
  std::unique_ptr<Executable> executable;
  // The plans of all ranks, which decide alike:
  Hash hash = {};
  std::vector<std::int64_t> arenas = {};  ///< bytes of each, or one number if all are equal
  double makespan = 0;                    ///< the longest
  std::size_t used_streams = 0;           ///< the most
  std::vector<std::string> traded = {};   ///< LimitedStep::traded

  std::int64_t largest_arena() const { return arenas.empty() ? 0 : std::ranges::max(arenas); }
};

class Planner {
 public:
  /// Reads the costs if options name a file. Throws DataError, or DeviceError if they are another device's.
  Planner(Context& context, StreamGroup& streams, const SessionOptions& options);

  /// The graphs that it plans for a recorded step: one for all ranks, or one for each stage of a pipeline. All ranks
  /// must call this, and get the buckets of rank 0.
  std::vector<RewrittenGraph> rewritten(const StepGraph& recorded) const;
  /// Plans the step of this rank within the limit of the arena if such a plan is found; 0 is no limit. The graphs must
  /// outlive the executable.
  PlannedStep plan(std::span<const RewrittenGraph> rewritten, const PlanSetting& setting, std::int64_t limit);
  /// Whether plans for several streams go by what nodes took in runs on one stream, once observe() has told: on CPU,
  /// where the scheduler chooses widths and nothing else measures costs. Ranks would observe different times.
  bool observes() const;
  /// Whether a plan with this setting does.
  bool goes_by_observed(const PlanSetting& setting) const { return setting.streams > 1 && observes(); }
  /// The nodes of an executable ran at these times.
  void observe(const Executable& executable, const RunTimes& times);
  /// The settings to compare. With streams = 0 or the policy auto: serial, concurrent, and on CPU narrow ones, which do
  /// well where other programs use the cores; with several ranks, also one stream alongside communication. Otherwise
  /// there is one setting.
  std::vector<PlanSetting> settings() const;

  const SessionOptions& options() const { return options_; }
  StreamGroup& streams() const { return streams_; }
  DeviceType device_type() const { return context_.device().type; }
  /// See Session::expect_steps; 0 if unknown.
  std::int64_t expected_steps = 0;
  /// The clock that has timed implementations (SessionOptions::autotune); empty if none were timed.
  std::string autotune_clock() const { return timer_.clock(); }
  /// How many nodes of the newest plan have measured durations.
  scheduler::ProfileUse measured() const { return measured_; }

 private:
  /// A plan, and what it is made of.
  struct Made {
    NodeKernels kernels;
    scheduler::LimitedStep step;
  };
  Made make(const StepGraph& graph, const PlanSetting& setting, std::int64_t limit);
  scheduler::Profile observed() const;
  DeviceInfo device() const;

  Context& context_;
  StreamGroup& streams_;
  const SessionOptions& options_;
  const std::unique_ptr<const scheduler::Profile> profile_;  // SessionOptions::profile; null if they name no file
  KernelTimer timer_;
  std::map<scheduler::NodeImplementation, std::vector<double>> observed_;  // microseconds, the latest last
  scheduler::ProfileUse measured_;
};

}  // namespace braid
