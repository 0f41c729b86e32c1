// Plans as JSON. One that passes is safe, and written back as JSON that says the same.

#include "core/base/error.h"
#include "scheduler/plan.h"
#include "tests/fuzz/diamond.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  static const scheduler::Problem problem = scheduler::make_problem(diamond(), diamond_costs(), 2, 2);
  accepts<PlanError>([&] {
    const scheduler::Plan plan = scheduler::plan_from_json(input, problem);
    require(scheduler::plan_from_json(scheduler::to_json(plan), problem) == plan, "a plan that stays the same");
  });
}

}  // namespace

const Fuzzer kFuzzer{.read = read, .fixed_bytes = 256 << 10, .bytes_per_byte = 256};

}  // namespace braid::fuzz
