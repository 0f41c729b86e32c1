# The CUDA backend needs the toolkit (12.8 or newer) and cuDNN 9.11, the first that plans for a device from a
# description of it. BRAID_CUDA=AUTO uses them if both are installed and otherwise reports what is missing; ON makes
# that an error. In addition to the usual places, CMake searches where pip installs them:
# site-packages/nvidia/<package>/{include,lib}, with libcudnn.so.9 but no libcudnn.so.
#
# Sets BRAID_HAS_CUDA; if it is true, enables the language CUDA, defines the target CUDA::cudart_static and sets CUDNN_FOLDER
# and CUBLASLT_FOLDER, where the libraries are.

set(BRAID_HAS_CUDA FALSE)
if(NOT BRAID_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "BRAID_CUDA must be AUTO, ON or OFF, got '${BRAID_CUDA}'")
elseif(BRAID_CUDA STREQUAL "OFF")
  return()
endif()

# Leaves out the CUDA backend for this reason: an error with BRAID_CUDA=ON, else a note.
macro(braid_no_cuda reason)
  if(BRAID_CUDA STREQUAL "ON")
    message(FATAL_ERROR "BRAID_CUDA=ON: ${reason}")
  endif()
  message(STATUS "CUDA backend: no (${reason})")
  return()
endmacro()

if(BUILD_SHARED_LIBS)  # each would have a CUDA runtime
  braid_no_cuda("Braid's shared libraries have none: set BUILD_SHARED_LIBS to OFF")
endif()
find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  braid_no_cuda("the CUDA Toolkit 12.8 or newer was not found; put nvcc on the PATH or set CUDAToolkit_ROOT")
elseif(CUDAToolkit_VERSION VERSION_LESS 12.8)
  braid_no_cuda("the CUDA Toolkit 12.8 or newer is needed, that in ${CUDAToolkit_BIN_DIR} is ${CUDAToolkit_VERSION}")
endif()

file(GLOB pip_folders LIST_DIRECTORIES TRUE
     ${CUDAToolkit_LIBRARY_ROOT}/../cudnn ${CUDAToolkit_LIBRARY_ROOT}/../cublas
     $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cudnn $ENV{VIRTUAL_ENV}/lib/python3*/site-packages/nvidia/cublas
     /usr/lib/python3*/site-packages/nvidia/cudnn /usr/local/lib/python3*/*-packages/nvidia/cudnn)
set(cuda_hints ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_LIBRARY_ROOT} ${CUDAToolkit_TARGET_DIR} ${pip_folders})
find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${cuda_hints} ${CUDAToolkit_INCLUDE_DIRS} PATH_SUFFIXES include)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR HINTS ${cuda_hints} ${CUDAToolkit_LIBRARY_DIR}
             PATH_SUFFIXES lib64 lib lib/x86_64-linux-gnu)
find_library(CUBLASLT_LIBRARY NAMES cublasLt libcublasLt.so.13 libcublasLt.so.12 NAMES_PER_DIR
             HINTS ${CUDAToolkit_LIBRARY_DIR} ${cuda_hints} PATH_SUFFIXES lib64 lib lib/x86_64-linux-gnu)
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY CUBLASLT_LIBRARY)
if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
  braid_no_cuda("cuDNN 9.11 or newer was not found; install it or set CUDNN_ROOT to the folder of its include and lib")
elseif(NOT CUBLASLT_LIBRARY)
  braid_no_cuda("cuBLASLt was not found in ${CUDAToolkit_LIBRARY_DIR}")
endif()
file(STRINGS ${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN_VERSION REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
list(TRANSFORM CUDNN_VERSION REPLACE "[^0-9]+" "")
list(JOIN CUDNN_VERSION "." CUDNN_VERSION)
if(CUDNN_VERSION VERSION_LESS 9.11)
  braid_no_cuda("cuDNN 9.11 or newer is needed, ${CUDNN_INCLUDE_DIR} has ${CUDNN_VERSION}")
endif()

# The GPU of this machine if it has one, else Hopper and, by PTX, every other GPU since Ampere.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus RESULT_VARIABLE status ERROR_QUIET)
  if(status EQUAL 0 AND gpus MATCHES "GPU 0")
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    set(CMAKE_CUDA_ARCHITECTURES OFF)  # CMake would make other PTX for each of them, the slowest part of compiling
  endif()
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
endif()
if(CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_COMMAND})
endif()
enable_language(CUDA)
set(BRAID_CUDA_TARGETS ${CMAKE_CUDA_ARCHITECTURES})
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(BRAID_CUDA_TARGETS "80 (PTX) and 90")
  string(APPEND CMAKE_CUDA_FLAGS " -gencode arch=compute_80,code=[compute_80,sm_90]")
endif()
# Kernels are optimised by default. Optimising the host code that launches them is not worth a third of their compile
# time.
string(REPLACE "-O3" "-Xcompiler=-O1" CMAKE_CUDA_FLAGS_RELEASE "${CMAKE_CUDA_FLAGS_RELEASE}")
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.25.2 does not know that nvcc 12 supports C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

cmake_path(GET CUDNN_LIBRARY PARENT_PATH CUDNN_FOLDER)
cmake_path(GET CUBLASLT_LIBRARY PARENT_PATH CUBLASLT_FOLDER)

set(BRAID_HAS_CUDA TRUE)
message(STATUS "CUDA backend: toolkit ${CUDAToolkit_VERSION}, cuDNN ${CUDNN_VERSION}, "
               "architectures ${BRAID_CUDA_TARGETS}")
