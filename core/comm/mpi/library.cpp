#include "core/comm/mpi/library.h"

namespace braid::mpi {

Symbol find(const char* name) {
  // Open MPI has the same calls in versions 3 to 5. Its own plugins look for its symbols among the global ones.
  static const DynamicLibrary mpi("libmpi.so.40", BRAID_MPI_FOLDER, RTLD_NOW | RTLD_GLOBAL);
  BRAID_CHECK(mpi.problem().empty(), CommunicationError, "[mpi] ", mpi.problem(),
              ": install openmpi-bin, or put the folder of Open MPI's libraries into LD_LIBRARY_PATH");
  const Symbol symbol = mpi.find(name);
  BRAID_CHECK(symbol.address != nullptr, CommunicationError, "[mpi] ", mpi.name(), " has no ", name,
              ": install Open MPI 4");
  return symbol;
}

const Library& library() {
  static const Library loaded;
  return loaded;
}

}  // namespace braid::mpi
