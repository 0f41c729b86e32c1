#pragma once
// Verifies steps in a row. The verifier of plans checks one step; this one checks what happens between steps: inputs
// that arrive during the running step, parameters that the next step reads, events that are recorded again. It knows no
// plans and no backends, only operations in the order in which the host issues them, with CUDA's rules: a stream is in
// order; a wait binds to the last record issued before it, and to none if there is none.
//
// An operation never depends on a later one. So if, played one after another, every operation finds in memory what it
// expects, and if also every two that touch the same bytes (one of them writing) are ordered by streams, events or the
// host, then the device computes the same whatever the durations.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "scheduler/plan.h"

namespace braid::scheduler::testing {

/// Bytes [begin, end) that an operation reads or writes. Addresses are any numbers that tell memory apart.
struct Access {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool writes = false;
  std::int64_t content = 0;  ///< what it leaves there, or must find there: see StepMemory
  std::int64_t bytes() const { return end - begin; }
};

/// Queue 0 is the host itself, which finishes one operation before it begins the next; streams count from 1.
inline constexpr int kHost = 0;

struct Operation {
  enum class Kind : std::uint8_t {
    work,    ///< all reads, then all writes
    copy,    ///< the first access is the source, whatever it holds; the second the target
    record,  ///< an event, after everything before it in the queue
    wait     ///< for an event; by the host too
  };
  Kind kind = Kind::work;
  int queue = kHost;
  std::string name;  ///< as "step 1: node 7 on stream 2"
  std::vector<Access> accesses = {};
  std::int32_t event = -1;
  std::int32_t occurrence = 0;  ///< the record of the event that a wait means, from 1; 0: the last, if there is any
};

/// Which operations are over when another starts, whatever the durations: vector clocks over the queues.
class OperationOrder {
 public:
  /// Throws Error if a queue or an event is negative.
  explicit OperationOrder(std::span<const Operation> operations);
  bool before(std::size_t a, std::size_t b) const {
    return over_[b * queues_ + static_cast<std::size_t>(queue_[a])] > position_[a];
  }
  /// Waits that are bound to no record or to another than the one meant, and events that are recorded again while
  /// a queue may still wait for the previous record.
  const std::vector<std::string>& faults() const { return faults_; }

 private:
  std::size_t queues_ = 1;
  std::vector<int> queue_;              // per operation
  std::vector<std::int32_t> position_;  // per operation: its place in its queue
  std::vector<std::int32_t> over_;      // operation × queue: how many of the queue's are over when it starts
  std::vector<std::string> faults_;
};

/// Every fault of a sequence, as sentences; empty if it is safe.
std::vector<std::string> verify_operations(std::span<const Operation> operations);

/// Where the values of consecutive steps of a plan are, and what they hold: contents are numbers, different for every
/// value of every step, except that the first version of a persistent tensor is the last of the step before.
class StepMemory {
 public:
  /// Addresses of the arena and of the persistent tensors by slot; those of slots that the graph does not use do not
  /// count. The graph, the costs and the plan must outlive this. Throws Error if there are fewer slots than needed.
  StepMemory(const StepGraph& graph, const Costs& costs, const Plan& plan, std::int64_t arena,
             std::vector<std::int64_t> slots);

  /// What a node reads and writes in a step, its workspace included.
  std::vector<Access> node(NodeId id, int step) const;
  /// The bytes of a value, before or after what happens to it.
  Access read(ValueId id, int step) const { return access(id, step, false); }
  Access write(ValueId id, int step) const { return access(id, step, true); }
  /// What is there before step 0: the first version of every persistent tensor.
  std::vector<Access> initial() const;
  /// What must be there after a step: kept values, and the last version of every persistent tensor.
  std::vector<Access> final(int step) const;
  /// The inputs that the host provides before every step.
  std::vector<ValueId> inputs() const;

 private:
  Access access(ValueId id, int step, bool writes) const;
  std::int64_t content(ValueId root, int step) const;

  const StepGraph& graph_;
  const Costs& costs_;
  const Plan& plan_;
  std::int64_t arena_;
  std::vector<std::int64_t> slots_;
  std::vector<ValueId> first_version_, last_version_;  // per slot; kNoValue if it is not used
};

}  // namespace braid::scheduler::testing
