#pragma once
// Who started this process, and as which of how many ranks.

#include <string>

namespace braid {

/// The place of this process among those of its launch. Local ranks are those on the same host.
struct Launch {
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  int local_size = 1;
  std::string launcher = {};  ///< "mpirun", "srun", "torchrun", or empty: started alone
};

/// Reads the environment that mpirun (Open MPI, MPICH), srun or torchrun leaves to its processes; without one, a lone
/// rank. Throws Error, with the variable and its text, if it is malformed or contradicts another.
Launch launch_from_environment();

}  // namespace braid
