# Every dependency is an installed package; nothing is downloaded. scripts/setup.sh installs them.

find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
if(BRAID_APPS OR BRAID_TESTS)
  find_package(CLI11 REQUIRED)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)
endif()
if(NOT TARGET yaml-cpp::yaml-cpp)  # yaml-cpp before 0.8 exports no namespace
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

if(BRAID_ONEDNN)
  find_package(dnnl QUIET)
  if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN was not found. Run scripts/setup.sh, or configure with -DBRAID_ONEDNN=OFF "
                        "to use the portable kernels.")
  endif()
endif()
