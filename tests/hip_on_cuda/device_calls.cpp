// Starting, devices, and what they say of themselves.
#include <algorithm>
#include <cstring>

#include "tests/hip_on_cuda/forward.h"

namespace kdart::hip_on_cuda {
namespace {

// CUDA's number for an attribute; 0 for what has none.
int cuda_attribute(int attribute) {
  switch (attribute) {
    case hipDeviceAttributeComputeMode:
      return cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
    case hipDeviceAttributeIntegrated:
      return cuda::CU_DEVICE_ATTRIBUTE_INTEGRATED;
    case hipDeviceAttributeMaxBlockDimX:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X;
    case hipDeviceAttributeMaxBlockDimY:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y;
    case hipDeviceAttributeMaxBlockDimZ:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z;
    case hipDeviceAttributeMaxGridDimX:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X;
    case hipDeviceAttributeMaxGridDimY:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y;
    case hipDeviceAttributeMaxGridDimZ:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z;
    case hipDeviceAttributeMaxThreadsPerBlock:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    case hipDeviceAttributeMaxPitch:
      return cuda::CU_DEVICE_ATTRIBUTE_MAX_PITCH;
    case hipDeviceAttributeMultiprocessorCount:
      return cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    case hipDeviceAttributeMemoryPoolsSupported:
      return cuda::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    default:
      return 0;
  }
}

// Writes a device's properties in the layout that has its target at `arch`.
hipError_t write_properties(const Forward& forward, void* properties, int device, std::size_t arch) {
  auto* bytes = static_cast<char*>(properties);
  if (const auto result = forward.cu.device_get_name(bytes, properties_text - 1, device); result != cuda::CUDA_SUCCESS)
    return from_cuda(result);
  const std::size_t length = std::min(forward.target.size(), properties_text - 1);
  std::memcpy(bytes + arch, forward.target.data(), length);
  bytes[arch + length] = '\0';
  return hipSuccess;
}

}  // namespace

hipError_t entry::init(unsigned int) {
  KDART_FORWARD_CALL(init);
  return forward.start();
}

hipError_t entry::runtime_get_version(int* version) {
  KDART_FORWARD_CALL(runtime_get_version);
  *version = 60'342'131;
  return hipSuccess;
}

hipError_t entry::device_get_count(int* count) {
  KDART_FORWARD_CALL(device_get_count);
  return from_cuda(cu.device_get_count(count));
}

hipError_t entry::device_total_mem(std::size_t* bytes, hipDevice_t device) {
  KDART_FORWARD_CALL(device_total_mem);
  return from_cuda(cu.device_total_mem(bytes, device));
}

hipError_t entry::device_get_attribute(int* value, int attribute, int device) {
  KDART_FORWARD_CALL(device_get_attribute);
  if (attribute == hipDeviceAttributeWarpSize) {
    *value = forward.target.starts_with("gfx9") ? 64 : 32;
    return hipSuccess;
  }
  if (attribute == hipDeviceAttributeMaxSharedMemoryPerBlock) {
    *value = 64 << 10;
    return hipSuccess;
  }
  const int known = cuda_attribute(attribute);
  return known == 0 ? static_cast<hipError_t>(hipErrorInvalidValue)
                    : from_cuda(cu.device_get_attribute(value, known, device));
}

hipError_t entry::device_get_pci_bus_id(char* text, int bytes, int device) {
  KDART_FORWARD_CALL(device_get_pci_bus_id);
  return from_cuda(cu.device_get_pci_bus_id(text, bytes, device));
}

hipError_t entry::device_get_uuid(hipUUID* uuid, hipDevice_t device) {
  KDART_FORWARD_CALL(device_get_uuid);
  cuda::CUuuid found{};
  const auto result = cu.device_get_uuid(&found, device);
  std::memcpy(uuid->bytes, found.bytes, sizeof uuid->bytes);
  return from_cuda(result);
}

hipError_t entry::get_properties_r0600(void* properties, int device) {
  KDART_FORWARD_CALL(get_properties_r0600);
  return write_properties(forward, properties, device, properties_arch_r0600);
}

hipError_t entry::get_properties_r0000(void* properties, int device) {
  KDART_FORWARD_CALL(get_properties_r0000);
  return write_properties(forward, properties, device, properties_arch_r0000);
}

hipError_t entry::get_properties(void* properties, int device) {
  KDART_FORWARD_CALL(get_properties);
  return write_properties(forward, properties, device, properties_arch_r0000);
}

hipError_t entry::set_device(int device) {
  KDART_FORWARD_CALL(set_device);
  int count = 0;
  if (const auto result = cu.device_get_count(&count); result != cuda::CUDA_SUCCESS) return from_cuda(result);
  if (device < 0 || device >= count) return hipErrorInvalidDevice;
  current_device() = device;
  return hipSuccess;
}

hipError_t entry::get_device(int* device) {
  KDART_FORWARD_CALL(get_device);
  *device = current_device();
  return hipSuccess;
}

hipError_t entry::stream_get_device(hipStream_t stream, hipDevice_t* device) {
  KDART_FORWARD_IN_DEVICE(stream_get_device);
  cuda::CUcontext owner = nullptr;
  const auto result = cu.stream_get_ctx(reinterpret_cast<cuda::CUstream>(stream), &owner);
  if (result != cuda::CUDA_SUCCESS) return from_cuda(result);
  const std::lock_guard lock(forward.mutex);
  const auto found = std::find_if(forward.contexts.begin(), forward.contexts.end(),
                                  [&](const auto& entry) { return entry.second == owner; });
  if (found == forward.contexts.end()) return hipErrorInvalidHandle;
  *device = found->first;
  return hipSuccess;
}

}  // namespace kdart::hip_on_cuda
