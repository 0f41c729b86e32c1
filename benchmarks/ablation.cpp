// The worth of each stage of the search for a plan: switches off one stage at a time, for all nets, on this machine's
// cores and on an H200, at several batch sizes. The scheduler's models give the numbers; nothing runs.
//
//   bench_ablation [BATCH_SIZE…]        default: 1 8 32

#include <cstdio>
#include <ctime>

#include "benchmarks/net.h"
#include "core/text/text_table.h"
#include "scheduler/check/simulator.h"
#include "scheduler/memory/memory_limit.h"
#include "train/inspect/plan_target.h"

namespace braid {
namespace {

using scheduler::kSearchStages;
using scheduler::Plan;
using scheduler::Problem;

/// The memory limit for plans with limited windows, as a fraction of the arena without a limit.
constexpr double kLimit = 0.8;

struct Quality {
  double makespan = 0, waits = 0, arena = 0, seconds = 0;
};

/// One net at one batch size on one device: the results with all stages, and without each one.
struct Case {
  struct Qualities {
    Quality free, limited;
  };
  Qualities full;
  std::vector<Qualities> without;  // by stage
};

template <class Make>
Quality quality_of(const Problem& problem, const Make& make) {
  const std::clock_t start = std::clock();  // CPU time: other programs may be running
  const Plan plan = make(problem);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return {simulate(problem, plan).makespan, static_cast<double>(plan.commands.waits()),
          static_cast<double>(plan.arena_bytes), seconds};
}

Case measure(const Problem& problem) {
  const auto free = [](const Problem& p) { return make_plan(p, scheduler::critical_path, "critical_path"); };
  const auto limit = static_cast<std::int64_t>(kLimit * static_cast<double>(free(problem).arena_bytes));
  const auto limited = [limit](const Problem& p) {
    return plan_within(p, scheduler::critical_path, "critical_path", limit).plan;
  };
  Case result{.full = {quality_of(problem, free), quality_of(problem, limited)}, .without = {}};
  for (unsigned stage = 0; stage < std::size(kSearchStages); ++stage) {
    Problem without = problem;
    without.skipped = 1U << stage;
    result.without.push_back({quality_of(without, free), quality_of(without, limited)});
  }
  return result;
}

double percent(double without, double full) { return full > 0 ? 100 * (without / full - 1) : 0; }

/// Changes in percent of the full search. Positive: the stage saves that much.
void print(const std::string& title, const std::vector<Case>& cases, Quality Case::Qualities::*of) {
  std::vector<std::vector<std::string>> cells{
      {"without", "makespan, mean", "worst", "best", "waits", "arena, mean", "worst", "planning time"}};
  double seconds = 0;
  for (const Case& one : cases) seconds += (one.full.*of).seconds;
  for (std::size_t stage = 0; stage < std::size(kSearchStages); ++stage) {
    double makespan = 0, worst = 0, best = 0, waits = 0, full_waits = 0, arena = 0, worst_arena = 0, time = 0;
    for (const Case& one : cases) {
      const Quality& without = one.without[stage].*of;
      const double longer = percent(without.makespan, (one.full.*of).makespan);
      makespan += longer / static_cast<double>(cases.size());
      worst = std::max(worst, longer);
      best = std::min(best, longer);
      waits += without.waits;
      full_waits += (one.full.*of).waits;
      const double larger = percent(without.arena, (one.full.*of).arena);
      arena += larger / static_cast<double>(cases.size());
      worst_arena = std::max(worst_arena, larger);
      time += without.seconds;
    }
    cells.push_back({std::string(kSearchStages[stage]), fixed(makespan, 2), fixed(worst, 2), fixed(best, 2),
                     fixed(percent(waits, full_waits), 1), fixed(arena, 2), fixed(worst_arena, 2),
                     fixed(percent(time, seconds), 0)});
  }
  std::printf("%s: %zu steps, %s to plan\n%s\n", title.c_str(), cases.size(), milliseconds(seconds).c_str(),
              text_table(cells, "lrrrrrrr").c_str());
}

void run(const std::vector<std::int64_t>& batch_sizes) {
  const std::pair<const char*, int> devices[] = {{"cpu", 2}, {"h200", 4}};
  std::vector<Case> all[std::size(devices)];
  for (const std::string& name : models::model_names()) {
    for (const std::int64_t batch : batch_sizes) {
      const StepGraph graph = Net(name, batch).graph();
      for (std::size_t device = 0; device < std::size(devices); ++device) {
        const PlanTarget target = find_plan_target(devices[device].first);
        TargetCosts costs = target_costs(graph, target, {});
        all[device].push_back(
            measure(scheduler::make_problem(graph, std::move(costs.costs), target.info, devices[device].second)));
      }
      std::fprintf(stderr, "%s, batch size %d\n", name.c_str(), static_cast<int>(batch));
    }
  }
  std::printf("Loss without a stage, in percent\n\n");
  for (std::size_t device = 0; device < std::size(devices); ++device) {
    const std::string title = message(devices[device].first, ", ", devices[device].second, " streams");
    print(title, all[device], &Case::Qualities::free);
    print(message(title, ", ", kLimit, " of the arena"), all[device], &Case::Qualities::limited);
  }
}

}  // namespace
}  // namespace braid

int main(int count, char** arguments) {
  std::vector<std::int64_t> batch_sizes;
  for (int i = 1; i < count; ++i) batch_sizes.push_back(std::stoll(arguments[i]));
  braid::run(batch_sizes.empty() ? std::vector<std::int64_t>{1, 8, 32} : batch_sizes);
}
