#pragma once
// Chooses an implementation for every node of a scheduled step under a limit of workspace, jointly: what counts is the
// simulated makespan of the whole step, not the sum of times in isolation. A node off the critical path may take a
// slower kernel that needs less workspace, without making the step longer. After Oyama et al., "Accelerating deep
// learning frameworks with micro-batches" (2018), who choose the algorithms of all convolutions under one workspace
// limit.
//
// Streams, order and waits stay as they are. Where concurrent nodes are kept apart by edges (Problem::oversubscribes is
// false), no node becomes wider than in the plan, as there might be no room for it.

#include <cstdint>

#include "scheduler/plan.h"

namespace braid::scheduler {

/// The fewest bytes of the arena that the workspaces of all streams can need together.
std::int64_t least_workspace_bytes(const Problem& problem, const Plan& plan);

/// Chooses implementations for all nodes, and with them the workspace slices of the streams, such that the slices need
/// at most `limit` bytes of the arena and the simulated makespan is small: the smallest for a few nodes; by branch and
/// bound over some sizes of every slice, with the fastest kernels that fit, for many. A larger limit never gives a
/// larger makespan. Afterwards times are the simulator's, and workspaces must be planned again. Returns false and
/// changes nothing if the limit is less than least_workspace_bytes.
bool fit_implementations(const Problem& problem, Plan& plan, std::int64_t limit);

/// max(longest path over the commands, work / capacity) with the best implementation of every node: no choice gives a
/// smaller makespan.
double implementations_bound(const Problem& problem, const Plan& plan);

}  // namespace braid::scheduler
