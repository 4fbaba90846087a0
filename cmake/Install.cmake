# The install tree: headers, the library, and packages for find_package(kdart) and pkg-config. The package asks for
# nothing but threads; what the build used besides is inside the library.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(
  TARGETS kdart
  EXPORT kdart
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(
  DIRECTORY "${PROJECT_SOURCE_DIR}/core/include/kdart" "${PROJECT_BINARY_DIR}/generated/include/kdart"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  FILES_MATCHING
  PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE-MIT" "${PROJECT_SOURCE_DIR}/LICENSE-APACHE"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/kdart")
if(TARGET kda-probe)
  install(TARGETS kda-probe RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(kdart_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/kdart")
install(
  EXPORT kdart
  FILE kdartTargets.cmake
  NAMESPACE kdart::
  DESTINATION "${kdart_package_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/kdartConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/generated/package/kdartConfig.cmake"
                              INSTALL_DESTINATION "${kdart_package_dir}")
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/package/kdartConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/package/kdartConfig.cmake"
              "${PROJECT_BINARY_DIR}/generated/package/kdartConfigVersion.cmake" DESTINATION "${kdart_package_dir}")

# A static library needs its dependencies on the link line, a shared one carries them.
set(kdart_pc_libs "-pthread")
if(CMAKE_DL_LIBS)
  list(APPEND kdart_pc_libs "-l${CMAKE_DL_LIBS}")
endif()
list(JOIN kdart_pc_libs " " kdart_pc_libs)
if(BUILD_SHARED_LIBS)
  set(kdart_pc_libs "")
endif()
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}" OUTPUT_VARIABLE libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY "${CMAKE_INSTALL_PREFIX}"
           OUTPUT_VARIABLE includedir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig"
           OUTPUT_VARIABLE prefix_from_pc)
configure_file("${PROJECT_SOURCE_DIR}/cmake/kdart.pc.in" "${PROJECT_BINARY_DIR}/generated/package/kdart.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/package/kdart.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
