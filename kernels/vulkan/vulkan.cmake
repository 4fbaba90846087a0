# The set for Vulkan devices: one image that holds a SPIR-V module per kernel (contract/spirv.py says how).

find_program(KDART_GLSLC glslc DOC "Compiles GLSL to SPIR-V, for the Vulkan backend and its kernel set")
find_program(KDART_SPIRV_VAL spirv-val DOC "Validates SPIR-V; the Vulkan kernel set is built without it too")
if(NOT KDART_GLSLC)
  if(KDART_KERNELS_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "KDART_KERNELS_VULKAN is ON, and glslc was not found; set KDART_GLSLC")
  endif()
  kdart_note("no Vulkan kernel set: glslc was not found")
  return()
endif()
execute_process(COMMAND "${KDART_GLSLC}" --version OUTPUT_VARIABLE kda_glslc_version)
string(REGEX MATCH "shaderc v?([0-9][^ \n]*)" kda_glslc_version "${kda_glslc_version}")
set(kda_glslc_version "${CMAKE_MATCH_1}")

# What --target-env=vulkan1.2 makes; contract/manifest.py checks it.
set(kda_vulkan_target spv1.5)
set(kda_vulkan_folder "${kda_kernel_sets}/kda-vulkan")
set(kda_vulkan_modules_folder "${CMAKE_CURRENT_BINARY_DIR}/vulkan")
file(MAKE_DIRECTORY "${kda_vulkan_folder}" "${kda_vulkan_modules_folder}")

# Every kernel of the contract that has a source here. The arguments of all are generated.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${kda_contract}")
file(READ "${kda_contract}" kda_contract_text)
string(JSON kda_kernel_count LENGTH "${kda_contract_text}" kernels)
math(EXPR kda_last_kernel "${kda_kernel_count} - 1")
set(kda_vulkan_kernels "")
set(kda_vulkan_arguments "")
foreach(index RANGE ${kda_last_kernel})
  string(JSON name GET "${kda_contract_text}" kernels ${index} name)
  list(APPEND kda_vulkan_arguments "${kda_generated}/kernels/vulkan/${name}_arguments.glsl")
  if(EXISTS "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/${name}.comp")
    list(APPEND kda_vulkan_kernels ${name})
  endif()
endforeach()
add_custom_command(
  OUTPUT ${kda_vulkan_arguments}
  COMMAND "${Python3_EXECUTABLE}" -B "${kda_tools}/generate.py" glsl "${kda_contract}" "${kda_generated}"
  DEPENDS "${kda_contract}" ${kda_tool_files}
  COMMENT "Generating the kernel arguments in GLSL"
  VERBATIM)

file(GLOB kda_vulkan_includes CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/*.glsl")
set(kda_vulkan_modules "")
set(kda_vulkan_links "")
foreach(name IN LISTS kda_vulkan_kernels)
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/vulkan/${name}.comp")
  set(module "${kda_vulkan_modules_folder}/${name}.spv")
  set(validate "")
  if(KDART_SPIRV_VAL)
    set(validate COMMAND "${KDART_SPIRV_VAL}" --target-env vulkan1.2 "${module}")
  endif()
  # Not -O: spirv-opt's loop unroller forgets that a multiply and an add must not be contracted, and then fuses them.
  # Drivers optimise anyway.
  add_custom_command(
    OUTPUT "${module}"
    COMMAND "${KDART_GLSLC}" --target-env=vulkan1.2 -O0 -Werror "-I${kda_generated}" "${source}" -o "${module}"
            ${validate}
    DEPENDS "${source}" ${kda_vulkan_includes} "${kda_generated}/kernels/vulkan/${name}_arguments.glsl"
    COMMENT "Compiling ${name} for Vulkan"
    VERBATIM)
  list(APPEND kda_vulkan_modules "${module}")
  list(APPEND kda_vulkan_links "${name}=${module}")
endforeach()

# Features of Vulkan 1.2: shaderInt64, bufferDeviceAddress and storageBuffer16BitAccess. A device that can also be held to
# keep denormals, signed zeros, infinities and NaN, and to round to nearest even, gets the image that says so. NVIDIA's driver
# 580 cannot, and takes denormals for 0.
set(kda_vulkan_images "")
set(kda_vulkan_manifest_images "")
foreach(variant plain exact)
  set(image "${kda_vulkan_folder}/kda.${kda_vulkan_target}.${variant}.spv")
  set(controls "")
  if(variant STREQUAL "exact")
    set(controls --float-control DenormPreserve --float-control SignedZeroInfNanPreserve --float-control RoundingModeRTE)
  endif()
  add_custom_command(
    OUTPUT "${image}"
    COMMAND
      "${Python3_EXECUTABLE}" -B "${kda_tools}/spirv.py" --contract "${kda_contract}" --prefix kdart_ #
      --capability Shader --capability Int64 --capability PhysicalStorageBufferAddresses
      --capability StorageBuffer16BitAccess ${controls} --output "${image}" ${kda_vulkan_links}
    DEPENDS "${kda_contract}" ${kda_tool_files} ${kda_vulkan_modules}
    COMMENT "Linking the kernels for Vulkan (${variant})"
    VERBATIM)
  list(APPEND kda_vulkan_images "${image}")
  list(APPEND kda_vulkan_manifest_images --image "${image}" ${kda_vulkan_target} spirv)
endforeach()

kda_write_manifest(
  vulkan
  DEPENDS ${kda_vulkan_images}
  ARGUMENTS --symbol-prefix kdart_ --tool "glslc=${kda_glslc_version}" ${kda_vulkan_manifest_images})
add_custom_target(kdart_kernel_set_kda_vulkan ALL DEPENDS "${kda_vulkan_folder}/manifest.json")
add_dependencies(kdart_kernel_set_kda_vulkan kdart_kda_contract)
if(KDART_WITH_VULKAN)
  kdart_embed_kernel_set(
    NAME kda BACKEND vulkan
    MANIFEST "${kda_vulkan_folder}/manifest.json"
    IMAGES ${kda_vulkan_images}
    DEPENDS kdart_kernel_set_kda_vulkan)
endif()
