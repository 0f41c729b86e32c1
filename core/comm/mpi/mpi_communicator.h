#pragma once
// Ranks are processes that mpirun or srun started. Without MPI, unavailable.cpp takes the place of this folder.

#include "core/comm/communicator.h"

namespace braid::mpi {

/// The most elements or bytes, over all ranks, of one call of MPI, which counts in 32 bits. Larger collectives are
/// split.
inline constexpr std::int64_t kMostPerCall = std::int64_t{1} << 30;

/// Connects all ranks of the launch, which must all call this, also for a second communicator. Starts MPI unless the
/// program has done so. MPI ends with the process: by MPI_Finalize if no communicator has failed and all ranks end
/// (within 2 s, if the exit status is not 0), else by MPI_Abort, which ends all ranks.
///
/// Collectives are MPI's nonblocking ones, which make progress only while their caller polls; it polls less often while
/// nothing moves. Each communicator may run in its own thread.
///
/// Throws CommunicationError if this build has no MPI, if MPI does not start, or has another number of ranks.
std::unique_ptr<Communicator> make_communicator(const Launch& launch, std::chrono::nanoseconds timeout,
                                                std::int64_t most_per_call = kMostPerCall);

}  // namespace braid::mpi
