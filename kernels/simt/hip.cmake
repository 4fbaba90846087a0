# The set for AMD GPUs: one code object per target, by clang's AMD target alone. A folder only, until there is a HIP
# backend to embed it for.

set(KDART_HIP_TARGETS
    gfx90a gfx1100
    CACHE STRING "Processors that the HIP kernel set is compiled for")
find_program(
  KDART_HIP_CLANG
  NAMES clang++-19 clang++-20 clang++
  DOC "A clang with the AMDGPU target, for the HIP kernel set")
find_program(
  KDART_READELF
  NAMES llvm-readelf-19 llvm-readelf-20 llvm-readelf
  DOC "Reads the notes of AMD code objects")
find_program(KDART_HIP_LLD NAMES ld.lld-19 ld.lld-20 ld.lld)
if(NOT KDART_HIP_CLANG OR NOT KDART_READELF OR NOT KDART_HIP_LLD)
  if(KDART_KERNELS_HIP STREQUAL "ON")
    message(FATAL_ERROR "KDART_KERNELS_HIP is ON, and clang 19, llvm-readelf and lld were not all found; set "
                        "KDART_HIP_CLANG, KDART_READELF and KDART_HIP_LLD")
  endif()
  kdart_note("no HIP kernel set: it needs clang 19, llvm-readelf and lld")
  return()
endif()
execute_process(COMMAND "${KDART_HIP_CLANG}" -dumpversion OUTPUT_VARIABLE kda_clang_version OUTPUT_STRIP_TRAILING_WHITESPACE)

set(kda_hip_folder "${kda_kernel_sets}/kda-hip")
file(MAKE_DIRECTORY "${kda_hip_folder}")
set(kda_hip_arguments --symbol-prefix kdart_ --tool "clang=${kda_clang_version}")
set(kda_hip_images "")
foreach(target IN LISTS KDART_HIP_TARGETS)
  set(image "${kda_hip_folder}/kda.${target}.co")
  set(report "${CMAKE_CURRENT_BINARY_DIR}/kda.${target}.notes.txt")
  add_custom_command(
    OUTPUT "${image}" "${report}"
    COMMAND
      "${KDART_HIP_CLANG}" -x hip -std=c++20 -O3 --offload-arch=${target} --offload-device-only --no-gpu-bundle-output
      -nogpuinc -nogpulib -mcode-object-version=4 "-I${PROJECT_SOURCE_DIR}" "-I${kda_generated}"
      # The arithmetic of the reference route: two roundings, IEEE division and root, denormals.
      -ffp-contract=off -fhip-fp32-correctly-rounded-divide-sqrt -fno-gpu-flush-denormals-to-zero #
      -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Werror -o "${image}"
      "${CMAKE_CURRENT_SOURCE_DIR}/simt/kda.hip"
    COMMAND "${Python3_EXECUTABLE}" -B "${kda_tools}/run_logged.py" "${report}" "${KDART_READELF}" --notes "${image}"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/simt/kda.hip" ${kda_sources} ${kda_generated_files} "${kda_tools}/run_logged.py"
    COMMENT "Compiling the kernels for ${target}"
    VERBATIM)
  list(APPEND kda_hip_images "${image}" "${report}")
  list(APPEND kda_hip_arguments --image "${image}" ${target} code_object "${report}")
  # A wave of 64 threads takes 64 columns; two waves of 32 would share no more.
  if(target MATCHES "^gfx9")
    list(APPEND kda_hip_arguments --tunable ${target} recurrent_smem v_per_block 64)
  endif()
endforeach()

kda_write_manifest(hip DEPENDS ${kda_hip_images} ARGUMENTS ${kda_hip_arguments})
set(kda_in_all "")
if(KDART_KERNELS_HIP STREQUAL "ON")
  set(kda_in_all ALL)
endif()
add_custom_target(kdart_kernel_set_kda_hip ${kda_in_all} DEPENDS "${kda_hip_folder}/manifest.json")
add_dependencies(kdart_kernel_set_kda_hip kdart_kda_contract)
