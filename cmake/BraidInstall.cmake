# cmake --install: installs headers to include/braid, libraries, and a CMake package: find_package(braid) defines
# braid::braid.

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
