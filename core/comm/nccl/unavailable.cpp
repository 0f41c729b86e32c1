// Takes the place of NCCL in builds without it.

#include "core/base/error.h"
#include "core/comm/nccl/nccl_communicator.h"

namespace braid::nccl {

std::unique_ptr<Communicator> make_communicator(const Launch& launch, int device, std::chrono::nanoseconds,
                                                std::unique_ptr<Communicator>) {
  throw CommunicationError(message("[nccl] rank ", launch.rank, " of ", launch.size, " is to compute on cuda:", device,
                                   ", but this build of Braid is without NCCL: install libnccl-dev, or "
                                   "nvidia-nccl-cu12 or -cu13 from pip, and configure again"));
}

}  // namespace braid::nccl
