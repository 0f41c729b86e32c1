# Ranks on GPUs communicate over NCCL. BRAID_NCCL=AUTO uses it if there is a CUDA backend and NCCL is installed; ON
# makes it an error that it is not. In addition to the usual places, CMake searches where pip installs it:
# site-packages/nvidia/nccl/{include,lib}, with libnccl.so.2 but no libnccl.so. Programs load the library when they
# first use it (core/comm/nccl/library.cpp).
#
# Sets BRAID_HAS_NCCL; if it is true, NCCL_INCLUDE_DIR and NCCL_FOLDER (where the library is).

set(BRAID_HAS_NCCL FALSE)
if(NOT BRAID_NCCL MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "BRAID_NCCL must be AUTO, ON or OFF, got '${BRAID_NCCL}'")
elseif(BRAID_NCCL STREQUAL "OFF")
  return()
endif()

set(problem)
if(NOT BRAID_HAS_CUDA)
  set(problem "there is no CUDA backend")
else()
  file(GLOB pip_folders LIST_DIRECTORIES TRUE ${CUDAToolkit_LIBRARY_ROOT}/../nccl
       $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/nccl /usr/local/lib/python3*/*-packages/nvidia/nccl)
  set(nccl_hints ${NCCL_ROOT} $ENV{NCCL_ROOT} ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${pip_folders})
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${nccl_hints} PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl NAMES_PER_DIR HINTS ${nccl_hints}
               PATH_SUFFIXES lib64 lib lib/x86_64-linux-gnu)
  mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    set(problem "NCCL was not found; install libnccl-dev, or set NCCL_ROOT to the folder of its include and lib")
  else()
    file(STRINGS ${NCCL_INCLUDE_DIR}/nccl.h NCCL_VERSION REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM NCCL_VERSION REPLACE "[^0-9]+" "")
    list(JOIN NCCL_VERSION "." NCCL_VERSION)
    if(NCCL_VERSION VERSION_LESS 2.14)  # the first with communicators that do not block
      set(problem "NCCL 2.14 or newer is needed, ${NCCL_INCLUDE_DIR} has ${NCCL_VERSION}")
    endif()
  endif()
endif()
if(problem AND BRAID_NCCL STREQUAL "ON")
  message(FATAL_ERROR "BRAID_NCCL=ON: ${problem}")
elseif(problem)
  return()
endif()

cmake_path(GET NCCL_LIBRARY PARENT_PATH NCCL_FOLDER)
set(BRAID_HAS_NCCL TRUE)
message(STATUS "NCCL: ${NCCL_VERSION} in ${NCCL_FOLDER}")
