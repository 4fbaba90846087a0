# Every option of the build, in one place. A project that embeds kdart with add_subdirectory gets the library alone.

option(KDART_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(KDART_BUILD_TOOLS "Build kda-probe and the other tools" ${PROJECT_IS_TOP_LEVEL})
option(KDART_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(KDART_FUZZ "Build the fuzz targets (clang with libFuzzer)" OFF)
option(KDART_WERROR "Treat compiler warnings as errors" OFF)
option(KDART_INSTALL "Generate the install rules" ${PROJECT_IS_TOP_LEVEL})
set(KDART_SANITIZE
    ""
    CACHE STRING "Sanitizers for everything that is built here, as for -fsanitize: 'address,undefined' or 'thread'")
set(KDART_LINKER
    "AUTO"
    CACHE STRING "Linker, as for -fuse-ld; AUTO takes mold or lld when there, empty the compiler's own")

# Backends and kernel sets: ON requires what they need, OFF leaves them out, AUTO takes them when everything is there
# and says so in the summary when not.
function(kdart_auto_option name description)
  set(${name}
      "AUTO"
      CACHE STRING "${description} (AUTO, ON, OFF)")
  set_property(CACHE ${name} PROPERTY STRINGS AUTO ON OFF)
  if(NOT ${name} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${name} is '${${name}}'; it takes AUTO, ON or OFF")
  endif()
endfunction()

kdart_auto_option(KDART_BACKEND_CPU "Build the CPU backend")
kdart_auto_option(KDART_BACKEND_CUDA "Build the CUDA backend; its driver is opened at run time, and no toolkit is needed")
kdart_auto_option(KDART_BACKEND_HIP "Build the HIP backend; its runtime is opened at run time, and no ROCm is needed")
kdart_auto_option(KDART_BACKEND_VULKAN "Build the Vulkan backend, with the Vulkan headers and glslc")
kdart_auto_option(KDART_KERNELS_CPU "Build the kernel set for the CPU backend")
kdart_auto_option(KDART_KERNELS_CUDA "Build the kernel set for NVIDIA GPUs, with nvcc")
kdart_auto_option(KDART_KERNELS_HIP "Build the kernel set for AMD GPUs, with clang")
kdart_auto_option(KDART_KERNELS_VULKAN "Build the kernel set for the Vulkan backend, with glslc")

# The tests reach into the library, and a shared library hides its insides.
if(BUILD_SHARED_LIBS AND KDART_BUILD_TESTS)
  message(STATUS "kdart: BUILD_SHARED_LIBS hides what the tests need; building without them")
  set(KDART_BUILD_TESTS OFF)
endif()

# kdart_note(<line>): adds a line to the summary at the end of the configure run.
function(kdart_note line)
  string(REPLACE ";" " " line "${line}")
  set_property(GLOBAL APPEND PROPERTY KDART_NOTES "${line}")
endfunction()

function(kdart_print_summary)
  get_property(backends GLOBAL PROPERTY KDART_BACKENDS)
  get_property(sets GLOBAL PROPERTY KDART_TABLE_SETS)
  get_property(notes GLOBAL PROPERTY KDART_NOTES)
  list(JOIN backends " " backends)
  list(TRANSFORM sets REPLACE "^(.*):(.*)$" "\\1/\\2")
  list(JOIN sets " " sets)
  message(STATUS "kdart ${kdart_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  message(STATUS "  backends:     ${backends}")
  message(STATUS "  kernel sets:  ${sets}")
  message(STATUS "  tests ${KDART_BUILD_TESTS}, tools ${KDART_BUILD_TOOLS}, examples ${KDART_BUILD_EXAMPLES}, "
                 "fuzz ${KDART_FUZZ}, sanitizers '${KDART_SANITIZE}'")
  foreach(note IN LISTS notes)
    message(STATUS "  note: ${note}")
  endforeach()
endfunction()
