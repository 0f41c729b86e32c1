#pragma once
// Which launcher started this process, and its rank and the number of ranks.

#include <sys/types.h>

#include <optional>
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

/// Reads the environment that mpirun (Open MPI, MPICH), srun or torchrun sets for its processes; without one, a single
/// rank. Throws Error, with the variable and its text, if it is malformed or contradicts another.
Launch launch_from_environment();

/// A process of this host, as /proc shows it.
struct ProcessStat {
  std::string program;  ///< at most 15 characters of its name
  char state = 0;       ///< 'Z': it has ended
  pid_t parent = 0;
};
/// Empty if there is no such process, or no /proc.
std::optional<ProcessStat> process_stat(pid_t process);

}  // namespace braid
