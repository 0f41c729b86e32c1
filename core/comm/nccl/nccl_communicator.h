#pragma once
// Ranks are processes with a GPU each. Without NCCL, unavailable.cpp takes the place of this folder.

#include "core/comm/communicator.h"

namespace braid::nccl {

/// Connects all ranks of the launch, which must all call this, each on its own GPU: CUDA device `device` here. Calls
/// on device data are enqueued in the stream of `where`, and may be captured once calls of the same kind and size have
/// run; graphs must be destroyed before the communicator. Calls on host data, without a stream, block; all ranks make
/// them while no other call runs. Threads that wait for the device (core/device/cuda/wait.h) notice errors of other
/// ranks, and give up after the timeout.
///
/// Ranks find each other through `host` if it is given, which also carries abort() to the other ranks; otherwise
/// through the address in NCCL_COMM_ID. Throws CommunicationError if NCCL is missing or does not start, or if two ranks
/// have the same GPU.
std::unique_ptr<Communicator> make_communicator(const Launch& launch, int device, std::chrono::nanoseconds timeout,
                                                std::unique_ptr<Communicator> host);

}  // namespace braid::nccl
