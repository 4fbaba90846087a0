# The set for AMD GPUs: one code object per target, by clang's AMD target alone.

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

# Which processors it knows differs from one release to the next: each is tried on nothing.
function(kda_hip_knows target result)
  execute_process(
    COMMAND "${KDART_HIP_CLANG}" -x hip "--offload-arch=${target}" --offload-device-only -nogpuinc -nogpulib -fsyntax-only
            /dev/null
    RESULT_VARIABLE code
    OUTPUT_QUIET ERROR_QUIET)
  if(code EQUAL 0)
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
set(kda_hip_default gfx906 gfx90a gfx942 gfx1030 gfx1100 gfx1151 gfx1200 gfx1201)
kda_hip_knows(gfx950 known)
if(known)
  list(APPEND kda_hip_default gfx950)
endif()
set(KDART_HIP_TARGETS
    ${kda_hip_default}
    CACHE STRING "Processors that the HIP kernel set is compiled for")
set(kda_hip_unknown "")
foreach(target IN LISTS KDART_HIP_TARGETS)
  kda_hip_knows(${target} known)
  if(NOT known)
    list(APPEND kda_hip_unknown ${target})
  endif()
endforeach()
if(kda_hip_unknown)
  list(JOIN kda_hip_unknown " " kda_hip_unknown)
  set(kda_hip_unknown "clang ${kda_clang_version} (${KDART_HIP_CLANG}) does not know ${kda_hip_unknown}")
  if(KDART_KERNELS_HIP STREQUAL "ON")
    message(FATAL_ERROR "KDART_KERNELS_HIP is ON, and ${kda_hip_unknown}; KDART_HIP_TARGETS says what to build")
  endif()
  kdart_note("no HIP kernel set: ${kda_hip_unknown}")
  return()
endif()

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
add_custom_target(kdart_kernel_set_kda_hip ALL DEPENDS "${kda_hip_folder}/manifest.json")
add_dependencies(kdart_kernel_set_kda_hip kdart_kda_contract)
# Brings the page of registers up to date.
add_custom_target(
  kdart_hip_registers
  COMMAND "${Python3_EXECUTABLE}" -B "${kda_tools}/registers.py" write "${kda_hip_folder}/manifest.json"
          "${PROJECT_SOURCE_DIR}/docs/hip-registers.md"
  DEPENDS "${kda_hip_folder}/manifest.json"
  VERBATIM)
if(NOT KDART_BACKEND_HIP STREQUAL "OFF")
  set(kda_hip_objects ${kda_hip_images})
  list(FILTER kda_hip_objects INCLUDE REGEX "\\.co$")
  kdart_embed_kernel_set(
    NAME kda BACKEND hip
    MANIFEST "${kda_hip_folder}/manifest.json"
    IMAGES ${kda_hip_objects}
    DEPENDS kdart_kernel_set_kda_hip)
endif()
