# The set for the CPU backend: one shared object per instruction set level, all with the same bits.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  set(kda_cpu_targets x86-64 x86-64-v3)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(kda_cpu_targets aarch64)
elseif(KDART_KERNELS_CPU STREQUAL "ON")
  message(FATAL_ERROR "KDART_KERNELS_CPU is ON, and there is no CPU kernel set for ${CMAKE_SYSTEM_PROCESSOR}")
else()
  kdart_note("no CPU kernel set for ${CMAKE_SYSTEM_PROCESSOR}")
  return()
endif()

set(kda_cpu_folder "${kda_kernel_sets}/kda-cpu")
set(kda_cpu_arguments --tool "${CMAKE_CXX_COMPILER_ID}=${CMAKE_CXX_COMPILER_VERSION}")
set(kda_cpu_images "")
foreach(target IN LISTS kda_cpu_targets)
  set(image "kda_cpu_image_${target}")
  add_library(${image} MODULE "${CMAKE_CURRENT_SOURCE_DIR}/simt/kda.cpp")
  add_dependencies(${image} kdart_kda_contract)
  set_target_properties(
    ${image}
    PROPERTIES PREFIX ""
               OUTPUT_NAME "kda.${target}"
               SUFFIX ".so"
               LIBRARY_OUTPUT_DIRECTORY "${kda_cpu_folder}")
  target_include_directories(${image} PRIVATE "${PROJECT_SOURCE_DIR}" "${kda_generated}")
  target_link_libraries(${image} PRIVATE kdart_options kdart_warnings)
  # The last -O counts: a kernel compiled without optimisation is a hundred times slower. None of this changes a bit.
  target_compile_options(${image} PRIVATE -O3 -fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti)
  if(NOT target STREQUAL "x86-64")
    string(REPLACE "aarch64" "armv8-a" march "${target}")
    target_compile_options(${image} PRIVATE "-march=${march}")
  endif()
  # It needs nothing but the C library that the process has anyway.
  target_link_options(${image} PRIVATE -Wl,--as-needed)
  if(KDART_SANITIZE)
    target_compile_definitions(${image} PRIVATE KDART_KEEP_LOOPS)
  else()
    target_link_options(${image} PRIVATE $<$<CONFIG:Release>:-s>)
  endif()
  list(APPEND kda_cpu_images "${kda_cpu_folder}/kda.${target}.so")
  list(APPEND kda_cpu_arguments --image "${kda_cpu_folder}/kda.${target}.so" ${target} elf_shared)
endforeach()

kda_write_manifest(cpu DEPENDS ${kda_cpu_images} ARGUMENTS ${kda_cpu_arguments})
add_custom_target(kdart_kernel_set_kda_cpu ALL DEPENDS "${kda_cpu_folder}/manifest.json")
kdart_embed_kernel_set(
  NAME kda BACKEND cpu
  MANIFEST "${kda_cpu_folder}/manifest.json"
  IMAGES ${kda_cpu_images}
  DEPENDS kdart_kernel_set_kda_cpu)
