#pragma once
// Reads steps in a row as operations, to be verified, from the log of the recording runtime.

#include "tests/cuda/sequence/operations.h"
#include "tests/cuda/sequence/trace.h"

namespace braid::testing {

using namespace scheduler::testing;

/// Every operation that the log asks of the device, and what the host waits for. The log must hold a mark "step" where
/// each step begins, and those of NodeMarks. A node is one operation, with the accesses that its step demands. A graph
/// is launched as what was captured, on separate queues between a fork and a join.
///
/// What the host writes into pinned memory is not in the log: it is taken to be, ahead of the upload, what the copies
/// out of that slot take it for; a slot of which they take something twice is a fault.
struct TracedSteps {
  std::vector<Operation> operations;
  std::vector<std::string> faults;
};
/// `streams` are the ids of the plan's streams.
TracedSteps steps_of(const std::vector<Call>& calls, const StepMemory& memory, std::span<const int> streams);

}  // namespace braid::testing
