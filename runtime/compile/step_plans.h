#pragma once
// The plans of one step structure. Each is made when it is first needed, they are compared, and the kept one remains.

#include "core/text/text.h"
#include "runtime/arena.h"
#include "runtime/compile/plan_choice.h"
#include "runtime/compile/planner.h"

namespace braid {

class StepPlans {
 public:
  /// The planner must outlive it.
  StepPlans(const StepGraph& recorded, Planner& planner);

  /// The recorded graph, with the values that are kept for readers.
  const StepGraph& graph() const { return recorded_.has_value() ? *recorded_ : planned_.front().graph; }
  /// The executable to run next, bound to the arena, which may move. Kernels that turn out to be unusable have been
  /// replaced. Plans keep to the memory limit (plan_step); throws OutOfMemory if none does. If the device itself is
  /// short of memory, plans that need less take over in the same way.
  Executable& ready(Arena& arena, const Context& context);
  /// The executable that was ready last; null if none was.
  Executable* current() const { return plans_[current_].executable.get(); }
  /// Whether the times of the nodes are wanted from the run of the plan that is ready; see Planner::observes.
  bool wants_times() const;
  void add_times(const RunTimes& times) { planner_.observe(*current(), times); }
  /// How many plans it has: several while they are compared.
  std::int64_t made() const;
  /// Decides when plans are compared, and is told the times.
  PlanChoice& choice() { return choice_; }

  /// Why the plan in use was kept; empty unless plans were compared, memory is short, or a kernel is unusable.
  std::string choice_report() const { return with_problems(choice_.report()); }
  /// The same in brief.
  std::string choice_summary() const { return with_problems(choice_.summary()); }
  /// What the plan in use gave up for memory; empty if nothing.
  std::string memory_report() const { return comma_list(plans_[current_].traded, "; "); }

 private:
  /// What is known of a choice, and of a kernel that is unusable.
  std::string with_problems(const std::string& choice) const;
  /// Begins with no plans.
  void start(std::vector<PlanSetting> settings);
  /// Like ready(), for a plan; null if it is dropped. Throws UnusableKernel.
  Executable* try_plan(std::size_t plan, Arena& arena, const Context& context);
  /// Makes all plans to compare, and returns the one that needs the largest arena. Those that go by observed times wait
  /// until the others have run.
  std::size_t make_all();
  /// Makes an executable ready to run. If that fails on any rank, it throws on all of them: UnusableKernel or
  /// OutOfMemory.
  void prepare(PlannedStep& plan, Arena& arena, const Context& context);
  /// Makes a plan, if it fits the limit and is worth running. Throws OutOfMemory if it does not fit and is the first.
  PlannedStep make(const PlanSetting& setting);
  /// Drops the plans that need this many bytes or more. If none is left, replans with a lower limit. False if no plan
  /// needs less.
  bool use_less_memory(std::int64_t bytes);

  const std::vector<RewrittenGraph> planned_;  // Planner::rewritten
  const std::optional<StepGraph> recorded_;    // if they differ
  Planner& planner_;
  std::vector<PlanSetting> settings_;
  std::vector<PlannedStep> plans_;  // per setting; without executable unless it has turns left or is kept
  std::size_t current_ = 0;         // the plan that was ready last
  PlanChoice choice_;
  std::string shortage_;  // describes a shortage of memory
  std::string unusable_;  // the kernel that failed last
};

}  // namespace braid
