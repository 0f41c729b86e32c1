#pragma once
// Which device a rank computes on, and the communicator between ranks on such devices.

#include <string_view>

#include "core/comm/communicator.h"
#include "core/device/device.h"

namespace braid {

/// The device that a name of Device::parse stands for on this rank: `auto` and `cuda` are the GPU of its local rank.
Device rank_device(std::string_view name, const Launch& launch);

/// The communicator between the processes of a launch, each of which computes on its own device of this type: NCCL
/// between GPUs, else as make_communicator(launch, timeout). All ranks must call this. They find each other through
/// MPI; with torchrun, or if NCCL_COMM_ID is set, through an address. Throws CommunicationError if what is needed is
/// missing or does not start, or if ranks compute on other devices than expected.
std::unique_ptr<Communicator> make_communicator(const Launch& launch, const Device& device,
                                                std::chrono::nanoseconds timeout = kCommunicationTimeout);

}  // namespace braid
