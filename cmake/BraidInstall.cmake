# cmake --install: installs headers to include/braid, libraries, a CMake package (find_package(braid) defines
# braid::braid) and a file for pkg-config. cpack packs all of it as braid-<version>-<system>.tar.gz and .deb.

include(CMakePackageConfigHelpers)
set(BRAID_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/braid)

# The compiler finds <braid/braid.h> from include/, and its own includes ("core/shape.h") from include/braid/.
target_include_directories(braid INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(braid INTERFACE cxx_std_20)

set(libraries braid)
foreach(folder core ops autograd scheduler runtime models data train)
  if(TARGET braid_${folder})
    list(APPEND libraries braid_${folder})
    # Users reach the backends through the headers one level up; the backends' own headers stay private.
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/braid
            FILES_MATCHING PATTERN "*.h" PATTERN cpu EXCLUDE PATTERN cuda EXCLUDE PATTERN policies EXCLUDE
            PATTERN json_part.h EXCLUDE PATTERN own_kernels.h EXCLUDE)
  endif()
endforeach()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/braid DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/braid)

install(TARGETS ${libraries} EXPORT braidTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT braidTargets NAMESPACE braid:: DESTINATION ${BRAID_PACKAGE_DIR})
configure_package_config_file(cmake/braidConfig.cmake.in ${PROJECT_BINARY_DIR}/braidConfig.cmake
                              INSTALL_DESTINATION ${BRAID_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/braidConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/braidConfig.cmake ${PROJECT_BINARY_DIR}/braidConfigVersion.cmake
        DESTINATION ${BRAID_PACKAGE_DIR})

# For pkg-config: the libraries are static, so those that they use follow, whether --static is given or not.
set(BRAID_PC_LIBRARIES -lbraid_train -lbraid_models -lbraid_data -lbraid_runtime -lbraid_autograd -lbraid_ops -lbraid_scheduler
                       -lbraid_core -lyaml-cpp -lz -pthread)
if(BRAID_ONEDNN)
  list(APPEND BRAID_PC_LIBRARIES -ldnnl -fopenmp)
endif()
if(BRAID_HAS_CUDA)
  list(APPEND BRAID_PC_LIBRARIES "${CUDNN_LIBRARY}" "${CUBLASLT_LIBRARY}" "-L${CUDAToolkit_LIBRARY_DIR}" -lcudart_static -ldl -lrt)
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
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "libcpp-httplib-dev, libdnnl-dev, libyaml-cpp-dev, nlohmann-json3-dev, zlib1g-dev")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  include(CPack)
endif()
