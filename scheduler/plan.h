#pragma once
// A plan is a schedule made executable: for each stream an ordered list of commands, for each value an address in one
// arena, for each stream a workspace slice. A plain value: printable, comparable, serialisable.

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/align.h"
#include "core/device/program.h"
#include "scheduler/policy.h"

namespace braid::scheduler {

/// Bytes [offset, offset + bytes) of the arena.
struct ArenaSlice {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const ArenaSlice&, const ArenaSlice&) = default;
};

struct Plan {
  std::string policy;
  std::vector<Placement> placements;                      ///< per node
  CommandLists commands;                                  ///< views are not launched
  std::vector<std::pair<NodeId, NodeId>> resource_edges;  ///< promised by the policy, checked by the verifier
  std::vector<std::int64_t> offsets;                      ///< per value, bytes into the arena; -1 for persistent values
  std::vector<ArenaSlice> workspaces;                     ///< per stream
  std::int64_t arena_bytes = 0;                           ///< values and workspaces

  double makespan = 0;  ///< predicted, microseconds
  LowerBound bound;
  std::int64_t naive_bytes = 0;  ///< arena if no values shared bytes
  /// The most arena bytes in use at one time if it runs as predicted: no arena of this plan can be smaller.
  std::int64_t live_bytes = 0;

  friend bool operator==(const Plan&, const Plan&) = default;
};

/// Arena offsets are multiples of this many bytes: a cache line, a vector register, and what cuDNN requires.
inline constexpr std::int64_t kArenaAlignment = 256;
/// The bytes of the arena that a value or a workspace of this size takes.
constexpr std::int64_t arena_aligned(std::int64_t bytes) { return align_up(bytes, kArenaAlignment); }

/// Runs policy, waits, memory and verification in one call. Throws PlanError if the verifier finds a fault.
Plan make_plan(const Problem& problem, Policy policy, std::string_view policy_name);

/// The plan of a schedule, not verified. Where values waste the arena because their nodes are in no order, it has waits
/// that order them (scheduler/memory/sharing_edges.h), unless `adds_waits` is false.
Plan plan_schedule(const Problem& problem, const Schedule& schedule, std::string_view policy_name,
                   bool adds_waits = true);

/// A plan of a schedule up to its commands, without bound and memory.
Plan plan_commands(const Problem& problem, const Schedule& schedule, std::string_view policy_name);

/// The command lists of a schedule with as few waits as its stream assignment allows: a wait is dropped where stream
/// order or other waits already imply it (scheduler/lowering/waits.cpp). A log, if there is one, records which and why.
void add_commands(const Edges& edges, const Schedule& schedule, int streams, Plan& plan, ScheduleLog* log = nullptr);

/// Fills offsets, workspaces and sizes. Lifetimes are taken from the partial order of the commands: two values share
/// bytes only if every use of one happens before the write of the other (scheduler/memory/arena.cpp).
void plan_memory(const StepGraph& graph, const Costs& costs, Plan& plan);

/// Fits the workspaces of a planned arena to the current implementations of its nodes.
void replace_workspaces(const StepGraph& graph, const Costs& costs, Plan& plan);

/// What the bytes in use at the peak are for, and what is allocated outside the arena.
struct MemoryUse {
  std::int64_t activations = 0, gradients = 0, inputs = 0, workspaces = 0;
  std::int64_t persistent = 0;  ///< parameters and optimizer state
};
/// All but the persistent bytes add up to Plan::live_bytes.
MemoryUse memory_use(const StepGraph& graph, const Plan& plan);

/// Every fault of a plan, as sentences; empty if it is safe. Independent of the policies and planners: it derives the
/// order from the commands alone (vector clocks) and the conflicts from bytes alone (scheduler/check/verifier.cpp).
std::vector<std::string> verify_plan(const StepGraph& graph, const Costs& costs, const Plan& plan);
/// Throws PlanError with the first faults if there are any.
void require_safe(const Problem& problem, const Plan& plan);

std::string to_json(const Plan& plan);
/// Throws PlanError if the text is not a plan of this problem, or not a safe one.
Plan plan_from_json(std::string_view text, const Problem& problem);

}  // namespace braid::scheduler
