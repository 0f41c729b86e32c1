# The headers for users, made in include/braid of the build and installed from there. In the sources, headers include
# each other from the repository's root, as "core/base/shape.h". Users may have a file of the same path, so for them
# this becomes <braid/core/base/shape.h>, and include/ is the only folder that their compilers search.
#
# Also the script that makes them: cmake -DFROM=<sources> -DTO=<include/braid> "-DHEADERS=core/base/shape.h;…" -P BraidHeaders.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)
  foreach(header IN LISTS HEADERS)
    file(READ ${FROM}/${header} text)
    string(REGEX REPLACE "#include \"(braid/)?([^\"]+)\"" "#include <braid/\\2>" text "${text}")
    string(REGEX MATCHALL "#include <braid/[^>]+>" includes "${text}")
    foreach(include IN LISTS includes)
      string(REGEX REPLACE "#include <braid/(.+)>" "\\1" included "${include}")
      if(NOT included IN_LIST HEADERS AND NOT "braid/${included}" IN_LIST HEADERS)
        message(FATAL_ERROR "[headers] ${header} is for users, and includes ${included}, which is not: "
                            "include that in the .cpp file")
      endif()
    endforeach()
    string(REGEX REPLACE "^braid/" "" header ${header})
    set(previous)
    if(EXISTS ${TO}/${header})
      file(READ ${TO}/${header} previous)
    endif()
    if(NOT "${text}" STREQUAL "${previous}")  # what includes an unchanged header is not compiled again
      file(WRITE ${TO}/${header} "${text}")
    endif()
  endforeach()
  return()
endif()

set(folders braid core ops autograd scheduler runtime models data train)
list(TRANSFORM folders REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/\\1/*.h" OUTPUT_VARIABLE globs)
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${globs})
# Users reach the backends through the headers one level up; the backends' own headers stay private.
list(FILTER headers EXCLUDE REGEX "/(cpu|cuda|mpi|nccl|policies)/|/(dynamic_library|json|loaded_function|own_kernels).h$")
set(public ${headers})
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
list(TRANSFORM public REPLACE "^braid/" "")
list(TRANSFORM public PREPEND ${PROJECT_BINARY_DIR}/include/braid/)

set(stamp ${PROJECT_BINARY_DIR}/include/headers.stamp)
add_custom_command(OUTPUT ${stamp} BYPRODUCTS ${public} DEPENDS ${sources} ${CMAKE_CURRENT_LIST_FILE} VERBATIM
  COMMENT "Making the headers for users"
  COMMAND ${CMAKE_COMMAND} -DFROM=${PROJECT_SOURCE_DIR} -DTO=${PROJECT_BINARY_DIR}/include/braid "-DHEADERS=${headers}"
          -P ${CMAKE_CURRENT_LIST_FILE}
  COMMAND ${CMAKE_COMMAND} -E touch ${stamp})
add_custom_target(braid_headers ALL DEPENDS ${stamp})
target_sources(braid INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_BINARY_DIR}/include FILES ${public})
# Users of a single library, which all link to braid_core, get them too. Braid's own targets have the sources.
add_dependencies(braid_core braid_headers)
set(own $<IN_LIST:braid_settings,$<TARGET_PROPERTY:LINK_LIBRARIES>>)
target_include_directories(braid_core INTERFACE $<BUILD_INTERFACE:$<$<NOT:${own}>:${PROJECT_BINARY_DIR}/include>>)
