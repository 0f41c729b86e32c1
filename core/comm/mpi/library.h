#pragma once
// The functions of MPI that Braid calls. Open MPI is loaded when they are first used: linking it would make every start
// of a program 2 ms slower.

#define OMPI_SKIP_MPICXX 1  // the C++ interface, which MPI 3 removed
#include <mpi.h>

namespace braid::mpi {

struct Library {
  decltype(&MPI_Initialized) initialized;
  decltype(&MPI_Finalized) finalized;
  decltype(&MPI_Init_thread) init_thread;
  decltype(&MPI_Query_thread) query_thread;
  decltype(&MPI_Finalize) finalize;
  decltype(&MPI_Abort) abort;
  decltype(&MPI_Error_string) error_string;
  decltype(&MPI_Comm_set_errhandler) comm_set_errhandler;
  decltype(&MPI_Comm_rank) comm_rank;
  decltype(&MPI_Comm_size) comm_size;
  decltype(&MPI_Comm_idup) comm_idup;
  decltype(&MPI_Test) test;
  decltype(&MPI_Iallreduce) iallreduce;
  decltype(&MPI_Iallgather) iallgather;
  decltype(&MPI_Ialltoall) ialltoall;
  decltype(&MPI_Ibcast) ibcast;
  decltype(&MPI_Ibarrier) ibarrier;
  decltype(&MPI_Isend) isend;
  decltype(&MPI_Irecv) irecv;

  // mpi.h defines these as addresses of objects in the library.
  MPI_Comm world;
  MPI_Datatype byte, f32, f64, i32;
  MPI_Op sum;
  MPI_Errhandler errors_return;
};

/// Loads the library at the first call. Throws CommunicationError if that fails.
const Library& library();

}  // namespace braid::mpi
