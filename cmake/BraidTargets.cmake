# Compile settings shared by all targets, and one library per folder: static, or shared with BUILD_SHARED_LIBS.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
# Braid's own targets are optimised unless the project says otherwise; those of a project that contains it are not affected.
get_property(several GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT several)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Every clone shares ccache's results: paths are relative to the sources, in its comparisons and in the objects.
find_program(CCACHE ccache NO_CACHE)
set(CCACHE_COMMAND ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                   CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_COMMAND})
endif()
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)
# GCC compiles many files at a time 8 % faster if it collects garbage only from 512 MiB on.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)

# Warnings, and includes from the repository's root: private to our own targets.
add_library(braid_settings INTERFACE)
target_include_directories(braid_settings INTERFACE ${PROJECT_SOURCE_DIR})
# No code reads errno after a square root, and setting it would prevent vectorisation of loops.
target_compile_options(braid_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno -Wall -Wextra -Wpedantic -Wshadow>
  # Kernels must live in registers: a spill is a warning, and an error with BRAID_WERROR.
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Xptxas=--warn-on-spills,--warn-on-local-memory-usage>")
if(BRAID_WERROR)
  target_compile_options(braid_settings INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xptxas=--warning-as-error>")
endif()
if(BRAID_SANITIZE)
  # GCC 12 reports parts of the standard library as uninitialized, but only in instrumented code.
  add_compile_options(-fsanitize=${BRAID_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
                      $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:Clang>:-Wno-pass-failed>)
  # Half of the time to compile, for what AddressSanitizer finds when it happens.
  if(NOT BRAID_THOROUGH AND CMAKE_CXX_COMPILER_ID MATCHES Clang AND BRAID_SANITIZE MATCHES "address,undefined")
    add_compile_options(-fno-sanitize=object-size,pointer-overflow)
  endif()
  add_link_options(-fsanitize=${BRAID_SANITIZE})
endif()

# Code that runs once per process, or waits for a step, is not worth the compile time of -O3: configs, commands,
# reports, models.
set(BRAID_SELDOM $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
if(BRAID_SANITIZE)
  set(BRAID_SELDOM -O0)
endif()

# GCC reads the most common standard headers once for all targets, which for this purpose all make position-independent
# code of the same kind. A sanitizer's targets differ too much in their flags.
if(BRAID_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT BRAID_SANITIZE)
  set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
  file(CONFIGURE OUTPUT standard_headers.cpp CONTENT "")
  add_library(braid_standard_headers OBJECT ${PROJECT_BINARY_DIR}/standard_headers.cpp)
  target_link_libraries(braid_standard_headers PRIVATE braid_settings)
  target_precompile_headers(braid_standard_headers PRIVATE
    <algorithm> <cmath> <functional> <map> <memory> <optional> <set> <span> <string> <vector>)
endif()

# Compiles the sources of a target two dozen at a time: short files spend most of their time on the headers that all of
# them include.
function(braid_compile_together target)
  if(BRAID_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 24)
  endif()
  if(TARGET braid_standard_headers)
    target_precompile_headers(${target} REUSE_FROM braid_standard_headers)
  endif()
endfunction()

# Replaces the CUDA sources in a list by files that include a dozen of them each: nvcc reads headers five times, which takes
# longer than compiling most kernels. CMake from 3.31 on would put all of these into one.
function(braid_compile_kernels_together list)
  set(kernels ${${list}})
  list(FILTER kernels INCLUDE REGEX "\\.cu$")
  if(NOT BRAID_UNITY OR NOT kernels)
    return()
  endif()
  list(REMOVE_ITEM ${list} ${kernels})
  list(TRANSFORM kernels REPLACE "^${PROJECT_SOURCE_DIR}/(.+)" "#include \"\\1\"\n")
  while(kernels)
    list(SUBLIST kernels 0 12 some)
    list(REMOVE_ITEM kernels ${some})
    list(LENGTH kernels left)
    set(source ${PROJECT_BINARY_DIR}/kernels/batch_${left}.cu)
    list(JOIN some "" text)
    file(CONFIGURE OUTPUT ${source} CONTENT "${text}")
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    list(APPEND ${list} ${source})
  endwhile()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# One top-level folder, one library: it contains every source in there. Without CUDA, unavailable.cpp replaces what is in folders
# called cuda, likewise without MPI and NCCL.
function(braid_library folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/(cuda|mpi|nccl)/")
  # Large kernels compile separately: optimising them takes longer than reading headers, some enable instruction sets, and
  # a test replaces those of CUDA.
  file(GLOB_RECURSE kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/ops/*.cpp)
  list(FILTER kernels INCLUDE REGEX
       "/cuda/|/cpu/.*/|/cpu/(batch_norm|max_pool|avg_pool|elementwise|expression|reduce|softmax|collective).cpp$")
  set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  foreach(backend CUDA MPI NCCL)
    string(TOLOWER ${backend} subfolder)
    file(GLOB_RECURSE backend_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp
         ${PROJECT_SOURCE_DIR}/${folder}/*.cu)
    list(FILTER backend_sources INCLUDE REGEX "/${subfolder}/")
    if(BRAID_HAS_${backend})
      set(filter EXCLUDE)
    else()
      set(filter INCLUDE)
    endif()
    list(FILTER backend_sources ${filter} REGEX "/unavailable.cpp$")
    list(FILTER backend_sources EXCLUDE REGEX "/(cuda/loaded/libraries|nccl/library).cpp$")  # a test replaces them (BraidLink.cmake)
    list(APPEND sources ${backend_sources})
  endforeach()
  if(NOT BRAID_ONEDNN)
    list(FILTER sources EXCLUDE REGEX "/onednn/")
  endif()
  if(NOT sources)
    return()
  endif()
  braid_compile_kernels_together(sources)
  add_library(braid_${folder} ${sources})
  if(BUILD_SHARED_LIBS)  # they export what is in namespace braid, and nothing of the libraries that they contain
    set_target_properties(braid_${folder} PROPERTIES VERSION ${PROJECT_VERSION}
      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_ARCHIVE_OUTPUT_DIRECTORY}
      INSTALL_RPATH $ORIGIN DEFINE_SYMBOL "" LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/exported.map)
    target_link_options(braid_${folder} PRIVATE -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/exported.map)
  endif()
  braid_compile_together(braid_${folder})
  add_library(braid::${folder} ALIAS braid_${folder})
  set_target_properties(braid_${folder} PROPERTIES EXPORT_NAME ${folder})
  target_compile_features(braid_${folder} PUBLIC cxx_std_20)
  target_link_libraries(braid_${folder} PRIVATE $<BUILD_INTERFACE:braid_settings>)
endfunction()
