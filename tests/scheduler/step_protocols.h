#pragma once
// What the executors make of a plan that runs repeatedly, written a second time, from their documentation: the
// operations of steps in a row, to be verified (tests/scheduler/step_sequence.h). That the real ones do the same is
// shown by their traces, in tests/cuda/sequence/sequence_test.cpp and tests/scheduler/step_sequence_test.cpp.

#include "tests/scheduler/step_sequence.h"

namespace braid::scheduler::testing {

/// CUDA streams (core/device/cuda/stream_group.h, staging.h). Inputs are copied into one of two slots of staging
/// memory, on a separate stream during the previous step, and from there into the arena on stream 0. Then all streams
/// wait for stream 0, run their commands, and stream 0 waits for all of them. The host prepares a step when at most one
/// is still running; with `prefetch`, it sends the inputs of the next step before that.
std::vector<Operation> cuda_steps(const StepGraph& graph, const Costs& costs, const Plan& plan, int steps,
                                  bool prefetch);

/// CPU threads (core/device/cpu/stream_group.h). Every stream waits until all have finished the step before. The host
/// writes inputs into the arena when all streams are idle; a step without inputs it launches at once. Events carry the
/// number of the step.
std::vector<Operation> cpu_steps(const StepGraph& graph, const Costs& costs, const Plan& plan, int steps);

/// Faults of three steps in a row by any of these. The plan must be safe for one step (verify). The protocols keep
/// steps apart whatever the plan, so there is no need to ask this of every plan.
std::vector<std::string> verify_steps(const StepGraph& graph, const Costs& costs, const Plan& plan);

}  // namespace braid::scheduler::testing
