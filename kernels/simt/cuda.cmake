# The set for NVIDIA GPUs: one cubin per target. A folder only, until there is a CUDA backend to embed it for.

set(KDART_CUDA_TARGETS
    80 90
    CACHE STRING "Compute capabilities that the CUDA kernel set is compiled for")
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

set(kda_cuda_folder "${kda_kernel_sets}/kda-cuda")
file(MAKE_DIRECTORY "${kda_cuda_folder}")
set(kda_cuda_arguments --symbol-prefix kdart_ --tool "nvcc=${kda_nvcc_version}")
set(kda_cuda_images "")
foreach(target IN LISTS KDART_CUDA_TARGETS)
  set(image "${kda_cuda_folder}/kda.sm_${target}.cubin")
  set(report "${CMAKE_CURRENT_BINARY_DIR}/kda.sm_${target}.ptxas.txt")
  add_custom_command(
    OUTPUT "${image}" "${report}"
    COMMAND
      "${Python3_EXECUTABLE}" -B "${kda_tools}/run_logged.py" "${report}" #
      "${KDART_NVCC}" -std=c++20 -O3 -cubin -arch=sm_${target} "-I${PROJECT_SOURCE_DIR}" "-I${kda_generated}"
      # The arithmetic of the reference route: two roundings, IEEE division and root, denormals.
      -fmad=false -prec-div=true -prec-sqrt=true -ftz=false #
      -Werror all-warnings -Xptxas -v,-warn-spills,-warn-lmem-usage -o "${image}"
      "${CMAKE_CURRENT_SOURCE_DIR}/simt/kda.cu"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/simt/kda.cu" ${kda_sources} ${kda_generated_files} "${kda_tools}/run_logged.py"
    COMMENT "Compiling the kernels for sm_${target}"
    VERBATIM)
  list(APPEND kda_cuda_images "${image}" "${report}")
  list(APPEND kda_cuda_arguments --image "${image}" sm_${target} cubin "${report}")
endforeach()

kda_write_manifest(cuda DEPENDS ${kda_cuda_images} ARGUMENTS ${kda_cuda_arguments})
set(kda_in_all "")
if(KDART_KERNELS_CUDA STREQUAL "ON")
  set(kda_in_all ALL)
endif()
add_custom_target(kdart_kernel_set_kda_cuda ${kda_in_all} DEPENDS "${kda_cuda_folder}/manifest.json")
add_dependencies(kdart_kernel_set_kda_cuda kdart_kda_contract)
