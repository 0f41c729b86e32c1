#pragma once
// The functions of MPI that Braid calls. Open MPI is loaded when they are first used: linking it would make every start
// of a program 2 ms slower.

#define OMPI_SKIP_MPICXX 1  // the C++ interface, which MPI 3 removed
#include <mpi.h>

#include "core/base/dynamic_library.h"

namespace braid::mpi {

/// Loads the library at the first call. Throws CommunicationError if it cannot be loaded or has no such symbol.
Symbol find(const char* name);

struct Library {
  decltype(&MPI_Initialized) initialized = find("MPI_Initialized");
  decltype(&MPI_Finalized) finalized = find("MPI_Finalized");
  decltype(&MPI_Init_thread) init_thread = find("MPI_Init_thread");
  decltype(&MPI_Query_thread) query_thread = find("MPI_Query_thread");
  decltype(&MPI_Finalize) finalize = find("MPI_Finalize");
  decltype(&MPI_Abort) abort = find("MPI_Abort");
  decltype(&MPI_Error_string) error_string = find("MPI_Error_string");
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler = find("MPI_Comm_set_errhandler");
  decltype(&MPI_Comm_rank) comm_rank = find("MPI_Comm_rank");
  decltype(&MPI_Comm_size) comm_size = find("MPI_Comm_size");
  decltype(&MPI_Comm_idup) comm_idup = find("MPI_Comm_idup");
  decltype(&MPI_Comm_split) comm_split = find("MPI_Comm_split");
  // Functions that return at once, with a request.
  decltype(&MPI_Iallreduce) iallreduce = find("MPI_Iallreduce");
  decltype(&MPI_Iallgather) iallgather = find("MPI_Iallgather");
  decltype(&MPI_Ialltoall) ialltoall = find("MPI_Ialltoall");
  decltype(&MPI_Ibcast) ibcast = find("MPI_Ibcast");
  decltype(&MPI_Ibarrier) ibarrier = find("MPI_Ibarrier");
  decltype(&MPI_Isend) isend = find("MPI_Isend");
  decltype(&MPI_Irecv) irecv = find("MPI_Irecv");
  decltype(&MPI_Test) test = find("MPI_Test");

  // mpi.h defines these as addresses of objects in the library.
  MPI_Comm world = find("ompi_mpi_comm_world");
  MPI_Datatype byte = find("ompi_mpi_byte");
  MPI_Datatype f32 = find("ompi_mpi_float");
  MPI_Datatype f64 = find("ompi_mpi_double");
  MPI_Datatype i32 = find("ompi_mpi_int32_t");
  MPI_Op sum = find("ompi_mpi_op_sum");
  MPI_Errhandler errors_return = find("ompi_mpi_errors_return");
};

/// Finds all at the first call. Throws as find().
const Library& library();

}  // namespace braid::mpi
