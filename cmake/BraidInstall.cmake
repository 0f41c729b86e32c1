# cmake --install: installs headers (BraidHeaders.cmake) to include/braid, libraries, a CMake package (find_package(braid) defines
# braid::braid, and a target for each folder) and a file for pkg-config. cpack packs all of it as braid-<version>-<system>.tar.gz
# and .deb.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(BRAID_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/braid)

target_compile_features(braid INTERFACE cxx_std_20)
target_include_directories(braid_core INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(libraries braid braid_core braid_ops braid_autograd braid_scheduler braid_runtime braid_models braid_data braid_train)
if(BRAID_HAS_CUDA)
  list(APPEND libraries braid_cuda_libraries)
endif()
install(TARGETS ${libraries} EXPORT braidTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} FILE_SET HEADERS)
install(EXPORT braidTargets NAMESPACE braid:: DESTINATION ${BRAID_PACKAGE_DIR})
set(BRAID_HAS_ONEDNN ${BRAID_ONEDNN})
set(BRAID_PARTS)
foreach(part cuda mpi nccl onednn)
  string(TOUPPER BRAID_HAS_${part} has)
  if(${has})
    list(APPEND BRAID_PARTS ${part})
  endif()
endforeach()
configure_package_config_file(cmake/braidConfig.cmake.in ${PROJECT_BINARY_DIR}/braidConfig.cmake
                              INSTALL_DESTINATION ${BRAID_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/braidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/braidConfig.cmake ${PROJECT_BINARY_DIR}/braidConfigVersion.cmake
        DESTINATION ${BRAID_PACKAGE_DIR})

# For pkg-config: the libraries that static ones use follow, whether --static is given or not.
set(BRAID_PC_LIBRARIES -lbraid_train -lbraid_models -lbraid_data -lbraid_runtime -lbraid_autograd -lbraid_ops -lbraid_scheduler
                       -lbraid_core -pthread)
if(NOT BUILD_SHARED_LIBS)
  list(APPEND BRAID_PC_LIBRARIES -lyaml-cpp -lz -ldl)
  if(BRAID_ONEDNN)
    list(APPEND BRAID_PC_LIBRARIES -ldnnl)
  endif()
  if(BRAID_HAS_CUDA)
    list(APPEND BRAID_PC_LIBRARIES -lbraid_cuda_libraries "-L${CUDAToolkit_LIBRARY_DIR}" -lcudart_static -lrt)
  endif()
endif()
list(JOIN BRAID_PC_LIBRARIES " " BRAID_PC_LIBRARIES)
configure_file(cmake/braid.pc.in ${PROJECT_BINARY_DIR}/braid.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/braid.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR TGZ DEB)
  set(CPACK_PACKAGE_CONTACT "Braid <braid@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcpp-httplib-dev, libdnnl-dev, libyaml-cpp-dev, zlib1g-dev")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  include(CPack)
endif()
