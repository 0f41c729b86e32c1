#include "core/comm/mpi/library.h"

#include <dlfcn.h>

#include <string>

#include "core/base/error.h"

namespace braid::mpi {

namespace {

constexpr const char* kName = "libmpi.so.40";  // Open MPI 3 to 5, whose calls are the same

/// Searches the system's folders, then the folder where the build found it.
void* open() {
  // Open MPI's own plugins look for its symbols among the global ones.
  void* library = dlopen(kName, RTLD_NOW | RTLD_GLOBAL);
  const std::string why = library == nullptr ? dlerror() : "";
  if (library == nullptr) library = dlopen(message(BRAID_MPI_FOLDER, '/', kName).c_str(), RTLD_NOW | RTLD_GLOBAL);
  BRAID_CHECK(library != nullptr, CommunicationError, "[mpi] ", kName, " cannot be loaded (", why,
              "): install openmpi-bin, or put the folder of Open MPI's libraries into LD_LIBRARY_PATH");
  return library;
}

/// Finds a function or an object by its name.
struct Symbols {
  void* library;

  template <class T>
  void get(T*& pointer, const char* name) const {
    pointer = reinterpret_cast<T*>(dlsym(library, name));
    BRAID_CHECK(pointer != nullptr, CommunicationError, "[mpi] ", kName, " has no ", name, ": install Open MPI 4");
  }
};

Library load() {
  const Symbols symbols{open()};
  Library mpi;
  symbols.get(mpi.initialized, "MPI_Initialized");
  symbols.get(mpi.finalized, "MPI_Finalized");
  symbols.get(mpi.init_thread, "MPI_Init_thread");
  symbols.get(mpi.query_thread, "MPI_Query_thread");
  symbols.get(mpi.finalize, "MPI_Finalize");
  symbols.get(mpi.abort, "MPI_Abort");
  symbols.get(mpi.error_string, "MPI_Error_string");
  symbols.get(mpi.comm_set_errhandler, "MPI_Comm_set_errhandler");
  symbols.get(mpi.comm_rank, "MPI_Comm_rank");
  symbols.get(mpi.comm_size, "MPI_Comm_size");
  symbols.get(mpi.comm_idup, "MPI_Comm_idup");
  symbols.get(mpi.test, "MPI_Test");
  symbols.get(mpi.iallreduce, "MPI_Iallreduce");
  symbols.get(mpi.iallgather, "MPI_Iallgather");
  symbols.get(mpi.ialltoall, "MPI_Ialltoall");
  symbols.get(mpi.ibcast, "MPI_Ibcast");
  symbols.get(mpi.ibarrier, "MPI_Ibarrier");
  symbols.get(mpi.isend, "MPI_Isend");
  symbols.get(mpi.irecv, "MPI_Irecv");
  symbols.get(mpi.world, "ompi_mpi_comm_world");
  symbols.get(mpi.byte, "ompi_mpi_byte");
  symbols.get(mpi.f32, "ompi_mpi_float");
  symbols.get(mpi.f64, "ompi_mpi_double");
  symbols.get(mpi.i32, "ompi_mpi_int32_t");
  symbols.get(mpi.sum, "ompi_mpi_op_sum");
  symbols.get(mpi.errors_return, "ompi_mpi_errors_return");
  return mpi;
}

}  // namespace

const Library& library() {
  static const Library loaded = load();
  return loaded;
}

}  // namespace braid::mpi
