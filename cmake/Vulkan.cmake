# What the Vulkan backend and its kernels are built with. Nothing links libvulkan: the driver is opened at run time.
#
# Sets KDART_VULKAN_INCLUDE_DIR, KDART_GLSLC and KDART_WITH_VULKAN: whether the backend is built.

set(KDART_WITH_VULKAN OFF)
if(KDART_BACKEND_VULKAN STREQUAL "OFF")
  return()
endif()

find_path(KDART_VULKAN_INCLUDE_DIR vulkan/vulkan.h DOC "The folder of vulkan/vulkan.h, 1.3.204 or newer")
find_program(KDART_GLSLC glslc DOC "Compiles GLSL to SPIR-V, for the Vulkan backend and its kernel set")

set(missing "")
if(NOT KDART_VULKAN_INCLUDE_DIR)
  list(APPEND missing "vulkan/vulkan.h was not found (set KDART_VULKAN_INCLUDE_DIR)")
endif()
if(NOT KDART_GLSLC)
  list(APPEND missing "glslc was not found (set KDART_GLSLC)")
endif()
if(missing)
  list(JOIN missing ", " missing)
  if(KDART_BACKEND_VULKAN STREQUAL "ON")
    message(FATAL_ERROR "KDART_BACKEND_VULKAN is ON, and ${missing}")
  endif()
  kdart_note("no Vulkan backend: ${missing}")
else()
  set(KDART_WITH_VULKAN ON)
endif()
