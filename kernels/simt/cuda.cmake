# The set for NVIDIA GPUs: one cubin per target, which runs on later minor versions of it too, and PTX for every GPU from one
# target on.

set(KDART_CUDA_TARGETS
    80 86 89 90 100 120
    CACHE STRING "Compute capabilities that the CUDA kernel set has machine code for")
set(KDART_CUDA_PTX_TARGET
    80
    CACHE STRING "Compute capability from which on the CUDA kernel set has PTX, which the driver compiles")
find_program(
  KDART_NVCC nvcc
  HINTS "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin
  DOC "NVIDIA's compiler, for the CUDA kernel set")
if(NOT KDART_NVCC)
  if(KDART_KERNELS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KDART_KERNELS_CUDA is ON, and nvcc was not found; set KDART_NVCC")
  endif()
  kdart_note("no CUDA kernel set: nvcc was not found")
  return()
endif()
execute_process(COMMAND "${KDART_NVCC}" --version OUTPUT_VARIABLE kda_nvcc_version)
string(REGEX MATCH "V([0-9.]+)" kda_nvcc_version "${kda_nvcc_version}")
set(kda_nvcc_version "${CMAKE_MATCH_1}")

# Which targets it knows differs from one release to the next.
execute_process(COMMAND "${KDART_NVCC}" --list-gpu-code OUTPUT_VARIABLE kda_nvcc_targets ERROR_QUIET)
execute_process(COMMAND "${KDART_NVCC}" --list-gpu-arch OUTPUT_VARIABLE kda_nvcc_ptx_targets ERROR_QUIET)
string(REGEX MATCHALL "[a-z]+_[0-9]+" kda_nvcc_targets "${kda_nvcc_targets} ${kda_nvcc_ptx_targets}")
set(kda_cuda_unknown ${KDART_CUDA_TARGETS})
list(TRANSFORM kda_cuda_unknown PREPEND "sm_")
list(APPEND kda_cuda_unknown "compute_${KDART_CUDA_PTX_TARGET}")
list(TRANSFORM kda_cuda_unknown REPLACE "[af]$" "") # sm_90a and sm_100f come with the plain one, and are not listed
list(REMOVE_ITEM kda_cuda_unknown "" ${kda_nvcc_targets})
if(kda_cuda_unknown)
  list(JOIN kda_cuda_unknown " " kda_cuda_unknown)
  set(kda_cuda_unknown "nvcc ${kda_nvcc_version} (${KDART_NVCC}) does not know ${kda_cuda_unknown}")
  if(KDART_KERNELS_CUDA STREQUAL "ON")
    message(FATAL_ERROR "KDART_KERNELS_CUDA is ON, and ${kda_cuda_unknown}; KDART_CUDA_TARGETS says what to build")
  endif()
  kdart_note("no CUDA kernel set: ${kda_cuda_unknown}")
  return()
endif()

set(kda_cuda_folder "${kda_kernel_sets}/kda-cuda")
file(MAKE_DIRECTORY "${kda_cuda_folder}")
set(kda_cuda_arguments --symbol-prefix kdart_ --tool "nvcc=${kda_nvcc_version}")
set(kda_cuda_images "")
set(kda_cuda_reports "")
set(kda_cuda_flags
    -std=c++20 -O3 "-I${PROJECT_SOURCE_DIR}" "-I${kda_generated}"
    # The arithmetic of the reference route: two roundings, IEEE division and root, denormals.
    -fmad=false -prec-div=true -prec-sqrt=true -ftz=false -Werror all-warnings)
set(kda_cuda_source "${CMAKE_CURRENT_SOURCE_DIR}/simt/kda.cu")
set(kda_cuda_depends "${kda_cuda_source}" ${kda_sources} ${kda_generated_files})
foreach(target IN LISTS KDART_CUDA_TARGETS)
  set(image "${kda_cuda_folder}/kda.sm_${target}.cubin")
  set(report "${CMAKE_CURRENT_BINARY_DIR}/kda.sm_${target}.ptxas.txt")
  add_custom_command(
    OUTPUT "${image}" "${report}"
    COMMAND "${Python3_EXECUTABLE}" -B "${kda_tools}/run_logged.py" "${report}" #
            "${KDART_NVCC}" -cubin -arch=sm_${target} ${kda_cuda_flags} -Xptxas -v,-warn-spills,-warn-lmem-usage -o
            "${image}" "${kda_cuda_source}"
    DEPENDS ${kda_cuda_depends} "${kda_tools}/run_logged.py"
    COMMENT "Compiling the kernels for sm_${target}"
    VERBATIM)
  list(APPEND kda_cuda_images "${image}")
  list(APPEND kda_cuda_reports "${report}")
  list(APPEND kda_cuda_arguments --image "${image}" sm_${target} cubin "${report}")
endforeach()
set(image "${kda_cuda_folder}/kda.compute_${KDART_CUDA_PTX_TARGET}.ptx")
add_custom_command(
  OUTPUT "${image}"
  COMMAND "${KDART_NVCC}" -ptx -arch=compute_${KDART_CUDA_PTX_TARGET} ${kda_cuda_flags} -o "${image}" "${kda_cuda_source}"
  DEPENDS ${kda_cuda_depends}
  COMMENT "Compiling the kernels to PTX for compute_${KDART_CUDA_PTX_TARGET}"
  VERBATIM)
list(APPEND kda_cuda_images "${image}")
list(APPEND kda_cuda_arguments --image "${image}" compute_${KDART_CUDA_PTX_TARGET} ptx)

kda_write_manifest(cuda DEPENDS ${kda_cuda_images} ${kda_cuda_reports} ARGUMENTS ${kda_cuda_arguments})
add_custom_target(kdart_kernel_set_kda_cuda ALL DEPENDS "${kda_cuda_folder}/manifest.json")
add_dependencies(kdart_kernel_set_kda_cuda kdart_kda_contract)
# Brings the page of registers up to date.
add_custom_target(
  kdart_cuda_registers
  COMMAND "${Python3_EXECUTABLE}" -B "${kda_tools}/registers.py" write "${kda_cuda_folder}/manifest.json"
          "${PROJECT_SOURCE_DIR}/docs/cuda-registers.md"
  DEPENDS "${kda_cuda_folder}/manifest.json"
  VERBATIM)
if(NOT KDART_BACKEND_CUDA STREQUAL "OFF")
  kdart_embed_kernel_set(
    NAME kda BACKEND cuda
    MANIFEST "${kda_cuda_folder}/manifest.json"
    IMAGES ${kda_cuda_images}
    DEPENDS kdart_kernel_set_kda_cuda)
endif()
