// Takes the place of MPI in builds without it.

#include "core/base/error.h"
#include "core/comm/mpi/mpi_communicator.h"

namespace braid::mpi {

std::unique_ptr<Communicator> make_communicator(const Launch& launch, std::chrono::nanoseconds, std::int64_t) {
  throw CommunicationError(message("[mpi] ", launch.launcher.empty() ? "the launcher" : launch.launcher, " started ",
                                   launch.size,
                                   " ranks, but this build of Braid is without MPI: install libopenmpi-dev and "
                                   "openmpi-bin and configure again"));
}

}  // namespace braid::mpi
