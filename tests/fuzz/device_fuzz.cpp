// Descriptions of devices, and the estimates of times that follow from them.

#include "core/base/error.h"
#include "scheduler/costs/known_devices.h"
#include "scheduler/plan.h"
#include "tests/fuzz/diamond.h"
#include "tests/fuzz/fuzz.h"

namespace braid::fuzz {
namespace {

void read(std::string_view input) {
  static const StepGraph graph = diamond();
  DeviceInfo device;
  if (!accepts<Error>([&] { device = scheduler::device_from_json(input); })) return;
  const std::string written = scheduler::to_json(device);
  require(scheduler::to_json(scheduler::device_from_json(written)) == written, "a device that stays the same");
  accepts<PlanError>([&] {
    const int widths[] = {1, device.max_width};
    const auto problem = make_problem(graph, scheduler::analytic_costs(graph, device, widths), device, 2);
    make_plan(problem, scheduler::critical_path, "critical_path");
  });
}

}  // namespace

const Fuzzer kFuzzer{.read = read, .fixed_bytes = 256 << 10, .bytes_per_byte = 256};

}  // namespace braid::fuzz
