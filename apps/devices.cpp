#include <iostream>

#include "apps/commands.h"
#include "core/backend.h"
#include "core/cuda/cuda_backend.h"
#include "ops/cpu/onednn.h"

namespace braid::apps {

namespace {

void print(const Device& device, std::string_view unit) {
  const std::unique_ptr<Backend> backend = make_backend(device);
  const DeviceInfo& info = backend->info();
  std::cout << device << ": " << info.name << ", " << info.capacity << ' ' << unit << ", " << (info.memory_bytes >> 20)
            << " MiB memory";
}

}  // namespace

void add_devices(CLI::App& app, int& exit_code) {
  app.add_subcommand("devices", "List the devices that can be used")->callback([&exit_code] {
    print({DeviceType::cpu, 0}, "cores");
    const std::string onednn = cpu::onednn::version();
    std::cout << (onednn.empty() ? ", without oneDNN" : ", oneDNN " + onednn) << '\n';
    const std::string reason = cuda::unavailable_reason();
    if (reason.empty()) {
      print({DeviceType::cuda, 0}, "SMs");
      std::cout << '\n';
    } else {
      std::cout << "cuda: not available: " << reason << '\n';
    }
    exit_code = kOk;
  });
}

}  // namespace braid::apps
