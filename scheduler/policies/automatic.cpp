// No policy is best on every graph. This one runs all others, simulates their command lists, with interference and
// oversubscription, and takes the fastest. The serial schedule is among them, so the result is never slower than one
// stream in simulation.

#include "scheduler/check/simulator.h"

namespace braid::scheduler {
namespace {

struct Contender {
  Schedule schedule;
  double makespan = 0;
  std::int32_t waits = 0;
};

Contender candidate(const Problem& problem, const NamedPolicy& named) {
  Contender result{.schedule = named.policy(problem)};
  Plan plan = plan_schedule(problem, result.schedule, named.name);
  result.schedule.kept = named.name;
  result.makespan = simulate(problem, plan).makespan;
  result.waits = plan.commands.waits();
  return result;
}

bool better(const Contender& a, const Contender& b) {
  constexpr double kRounding = 1e-9;
  if (a.makespan < b.makespan * (1 - kRounding)) return true;
  return a.makespan <= b.makespan * (1 + kRounding) && a.waits < b.waits;
}

}  // namespace

Schedule automatic(const Problem& problem) {
  Contender best = candidate(problem, kPolicies[0]);
  for (const NamedPolicy& named : std::span(kPolicies).subspan(1)) {
    if (named.policy == automatic) continue;
    Contender next = candidate(problem, named);
    if (better(next, best)) best = std::move(next);
  }
  return std::move(best.schedule);
}

}  // namespace braid::scheduler
