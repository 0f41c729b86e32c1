// Profiles of nodes' times, and what planning takes from them.

#include "core/base/error.h"
#include "scheduler/costs/profile.h"
#include "tests/fuzz/diamond.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  static MemoryFolder folder;
  static const StepGraph graph = diamond();
  const DeviceInfo device{.name = "two cores", .capacity = 2, .max_width = 2};
  const std::string path = folder.write("profile.json", input);
  scheduler::Profile profile;
  if (!accepts<DataError>([&] { profile = scheduler::read_profile(path); })) return;
  scheduler::Costs costs = diamond_costs();
  scheduler::apply(profile, graph, costs);
  accepts<PlanError>(
      [&] { make_plan(make_problem(graph, costs, device, 2, &profile), scheduler::critical_path, "critical_path"); });
  scheduler::Profile merged = profile;
  scheduler::merge(merged, profile);  // a file may repeat a measurement
  scheduler::Profile again = merged;
  scheduler::merge(again, profile);
  require(again == merged, "a profile that stays the same");
}

}  // namespace

const Fuzzer kFuzzer{.read = read, .fixed_bytes = 256 << 10, .bytes_per_byte = 256};

}  // namespace braid::fuzz
