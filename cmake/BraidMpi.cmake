# Ranks on CPU communicate over Open MPI. BRAID_MPI=AUTO uses it if it is installed; ON makes it an error that it is
# not. Only its headers are needed here: programs load the library when they first use it (core/comm/mpi/library.h).
#
# Sets BRAID_HAS_MPI; if it is true, MPI_CXX_INCLUDE_DIRS, MPI_FOLDER (where the library is) and MPIEXEC_EXECUTABLE.

set(BRAID_HAS_MPI FALSE)
if(NOT BRAID_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "BRAID_MPI must be AUTO, ON or OFF, got '${BRAID_MPI}'")
elseif(BRAID_MPI STREQUAL "OFF")
  return()
endif()

set(MPI_CXX_SKIP_MPICXX TRUE)  # the C++ interface, which MPI 3 removed
find_package(MPI QUIET COMPONENTS CXX)
set(problem)
if(NOT MPI_CXX_FOUND)
  set(problem "Open MPI was not found; install libopenmpi-dev and openmpi-bin, or put mpicxx on the PATH")
else()
  find_path(OPEN_MPI_HEADER mpi.h PATHS ${MPI_CXX_INCLUDE_DIRS} NO_DEFAULT_PATH)
  mark_as_advanced(OPEN_MPI_HEADER)
  set(found)
  if(OPEN_MPI_HEADER)
    file(STRINGS ${OPEN_MPI_HEADER}/mpi.h found REGEX "define OPEN_MPI 1")
  endif()
  if(NOT found)
    set(problem "this MPI is not Open MPI, whose library Braid loads: ${MPI_CXX_INCLUDE_DIRS}")
  endif()
endif()
if(problem AND BRAID_MPI STREQUAL "ON")
  message(FATAL_ERROR "BRAID_MPI=ON: ${problem}")
elseif(problem)
  return()
endif()

list(GET MPI_CXX_LIBRARIES 0 MPI_FOLDER)
cmake_path(GET MPI_FOLDER PARENT_PATH MPI_FOLDER)
set(BRAID_HAS_MPI TRUE)
message(STATUS "MPI: ${MPI_FOLDER}")
