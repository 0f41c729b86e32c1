#include <iostream>
#include <memory>

#include "apps/commands.h"
#include "core/device/backend.h"
#include "core/device/cuda/cuda_backend.h"
#include "core/text/text.h"
#include "ops/kernels/cpu/onednn/onednn.h"
#include "ops/kernels/kernels.h"
#include "runtime/device_check.h"
#include "scheduler/costs/known_devices.h"
#include "train/inspect/plan_target.h"

namespace braid::apps {

namespace {

/// Includes the properties that cuDNN reports. Throws Error if there is no such device.
DeviceInfo complete_info(const std::string& name) {
  PlanTarget target = find_plan_target(name);
  if (target.has_kernels && target.info.properties.empty()) target.info.properties = device_properties(target.device);
  return std::move(target.info);
}

void print(const Device& device, std::string_view unit) {
  const std::unique_ptr<Backend> backend = make_backend(device);
  const DeviceInfo& info = backend->info();
  std::cout << device << ": " << info.name << ", " << plural(info.capacity, unit) << ", " << (info.memory_bytes >> 20)
            << " MiB memory";
}

}  // namespace

void add_devices(Command& app) {
  struct Arguments {
    std::string device;
    bool json = false, check = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  Command& command = app.add_command("devices", "List the devices to train on and to plan for");
  command.add_option("device", "DEVICE", &arguments->device,
                     "With --json: as in configs, or one to plan for; default: auto");
  command.add_flag("--json", &arguments->json, "Print one device as JSON, to plan for it on another machine");
  command.add_flag("--check", &arguments->check, "Train a tiny network on every GPU and compare it with the CPU's");
  command.footer =
      "Example:\n  braid devices\n  braid devices cuda --json > gpu.json\n  braid plan resnet50 --device gpu.json";
  command.run = [arguments, &app] {
    const auto& [device, json, check] = *arguments;
    if (json) {
      std::cout << scheduler::to_json(complete_info(device.empty() ? "auto" : device)) << '\n';
      return;
    }
    if (!device.empty()) throw UsageError("expected --json with a device");
    print({DeviceType::cpu, 0}, "core");
    const std::string onednn = cpu::onednn::version();
    std::cout << (onednn.empty() ? ", without oneDNN" : ", oneDNN " + onednn) << '\n';
    const std::string reason = cuda::unavailable_reason();
    if (reason.empty()) {
      for (int index = 0; index < cuda::device_count(); ++index) {
        const Device gpu{DeviceType::cuda, index};
        print(gpu, "SM");
        std::cout << '\n';
        if (!check) continue;
        const std::string fault = device_fault(gpu);
        std::cout << "  " << (fault.empty() ? "computes what the CPU does" : "FAILED: " + fault) << '\n';
        if (!fault.empty()) app.exit_code = kFailed;
      }
    } else {
      std::cout << "cuda: not available: " << reason << '\n';
      if (check) app.exit_code = kFailed;
    }
    std::cout << "known to 'braid plan --device': " << comma_list(scheduler::known_device_names()) << '\n';
  };
}

}  // namespace braid::apps
