#include "core/comm/rank_device.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/comm/nccl/nccl_communicator.h"
#include "core/device/cuda/cuda_backend.h"

namespace braid {

namespace {

constexpr const char* kAddress = "NCCL_COMM_ID";  // where NCCL lets rank 0 listen, host:port

/// The port after torchrun's own, on which torchrun itself may listen.
void set_address() {
  const char *host = std::getenv("MASTER_ADDR"), *port = std::getenv("MASTER_PORT");
  const int number = port == nullptr ? 0 : std::atoi(port);
  BRAID_CHECK(host != nullptr && number > 0 && number < 65535, Error, "[launch] torchrun's MASTER_ADDR is ",
              host == nullptr ? "not set" : host, " and MASTER_PORT ", port == nullptr ? "not set" : port,
              ": expected the address of rank 0, and a port below 65535");
  setenv(kAddress, message(host, ':', number + 1).c_str(), /*overwrite=*/0);
}

/// A rank on another type of device would wait for the others in a call of another engine.
void check_like_devices(Communicator& ranks, DeviceType own) {
  std::vector<DeviceType> types(static_cast<std::size_t>(ranks.size()));
  ranks.all_gather(&own, types.data(), sizeof own, {});
  const auto name = [](DeviceType type) { return type == DeviceType::cpu ? "the CPU" : "a GPU"; };
  const auto other = std::ranges::find_if(types, [&](DeviceType type) { return type != types.front(); });
  BRAID_CHECK(other == types.end(), CommunicationError, "[parallel] rank ", other - types.begin(), " computes on ",
              name(*other), ", rank 0 on ", name(types.front()),
              ": give all ranks the same kind of device. 'braid devices' says why a GPU is not used");
}

}  // namespace

Device rank_device(std::string_view name, const Launch& launch) {
  Device device = Device::parse(name);
  const bool is_free = name == "auto" || name == "cuda";
  // A launcher may show every rank its own GPU alone.
  if (device.type == DeviceType::cuda && is_free) device.index = launch.local_rank % std::max(1, cuda::device_count());
  return device;
}

std::unique_ptr<Communicator> make_communicator(const Launch& launch, const Device& device,
                                                std::chrono::nanoseconds timeout) {
  if (launch.size == 1) return make_communicator(launch, timeout);
  std::unique_ptr<Communicator> host;
  if (device.type == DeviceType::cuda && launch.launcher == "torchrun") set_address();
  if (device.type == DeviceType::cpu || std::getenv(kAddress) == nullptr) {
    host = make_communicator(launch, timeout);
    check_like_devices(*host, device.type);
  }
  if (device.type == DeviceType::cpu) return host;
  return nccl::make_communicator(launch, device.index, timeout, std::move(host));
}

}  // namespace braid
