#pragma once
// From step graph to executable. A structure seen before is found by its hash and compared; a new one is planned. With
// streams = 0 or the policy auto, the serial plan and the concurrent candidates are measured in the first steps, and
// the fastest is kept: concurrency is never slower than serial.

#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/executable.h"
#include "runtime/profile/kernel_timer.h"
#include "scheduler/costs/profile.h"

namespace braid {

struct SessionOptions;

/// The graph as it is planned. Results that nobody reads within the step are what the step is for: they are kept, and
/// so are single elements, which are too small to reuse.
StepGraph with_kept_results(StepGraph graph);
/// What a session builds kernels for.
KernelTarget kernel_target(const Context& context, const SessionOptions& options);
/// Widths that the scheduler may choose from: powers of two up to `max_width`, or the fixed one if it is not 0.
std::vector<int> widths(int fixed, int max_width);

class PlanCache {
 public:
  /// Reads the costs if options name a file. Throws DataError, or DeviceError if they are another device's.
  /// Tests may give graphs another hash.
  PlanCache(
      Context& context, StreamGroup& streams, const SessionOptions& options,
      Hash (*hash)(const StepGraph&) = [](const StepGraph& graph) { return graph.hash(); });
  ~PlanCache();

  /// The executable for a recorded graph, bound to the arena. May move the arena, which is as large as the largest plan
  /// needs. Plans keep to the memory limit (plan_step); throws OutOfMemory if none does. If the device itself is short
  /// of memory, plans that need less take over in the same way. Valid until the next call.
  Executable& find(const StepGraph& graph);
  /// Whether the executable just found is still being compared with others: the session then times its run.
  bool measuring() const { return measuring_; }
  /// Tells how long the run of the executable just found took.
  void add_measurement(double seconds);

  std::int64_t plans() const { return plans_; }
  std::int64_t hits() const { return hits_; }
  std::size_t arena_bytes() const { return arena_.bytes(); }
  const std::string& choice_report() const { return report_; }
  /// What the plan just found gave up for memory; empty if nothing.
  const std::string& memory_report() const { return memory_report_; }
  /// How many nodes of the newest plan have measured durations.
  scheduler::ProfileUse measured() const { return measured_; }

 private:
  struct Candidate;
  struct Entry;

  std::unique_ptr<Entry> plan(const StepGraph& graph);
  /// Its arena is within the limit if one was found that is; 0 is none.
  Candidate make_candidate(const StepGraph& graph, std::string_view policy, int streams, std::int64_t limit);
  void keep_fastest(Entry& entry);
  /// Makes the arena at least so large. May move it. Throws OutOfMemory.
  void reserve_arena(std::int64_t bytes);
  /// Drops the plans of an entry that need so many bytes or more. If none is left, plans anew within fewer. False if
  /// nothing needs less.
  bool use_less_memory(Entry& entry, std::int64_t bytes);
  void make_room();

  Context& context_;
  StreamGroup& streams_;
  const SessionOptions& options_;
  Hash (*const hash_)(const StepGraph&);
  std::unordered_multimap<Hash, std::unique_ptr<Entry>> entries_;
  Entry* current_ = nullptr;
  bool measuring_ = false;
  KernelTimer timer_;
  Buffer arena_;
  std::int64_t plans_ = 0, hits_ = 0, clock_ = 0;
  std::string report_, memory_report_;
  std::optional<scheduler::Profile> profile_;  // of SessionOptions::costs
  scheduler::ProfileUse measured_;
};

}  // namespace braid
