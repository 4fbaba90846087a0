// What a CUDA device says of itself, and what kdart makes of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/cuda/loader.h"
#include "kdart/device_info.h"
#include "kdart/kernel_set.h"

namespace kdart::cuda {

// As the driver has it. A plain value: tests make them from a table.
struct CudaSnapshot {
  std::uint32_t index = 0;
  std::string name, uuid, pci_address;
  std::uint64_t total_memory = 0;
  int cuda_version = 0;       // 13000
  std::string kernel_driver;  // "580.159.04"; "" where the system does not say
  std::string library;
  int major = 0, minor = 0;  // compute capability
  std::uint32_t threads_per_block = 0;
  Dim3 block{0, 0, 0}, grid{0, 0, 0};
  std::uint32_t shared_memory = 0, shared_memory_optin = 0;  // per block, bytes
  std::uint32_t warp = 0, multiprocessors = 0;
  std::uint64_t max_pitch = 0;
  bool integrated = false, prohibited = false, pools = false, host_page_tables = false;
  bool launch_attributes = false;  // the driver has cuLaunchKernelEx
};

// Throws what check_cuda throws.
[[nodiscard]] CudaSnapshot read_snapshot(const Library& library, std::uint32_t index);
[[nodiscard]] std::uint32_t device_count(const Library& library);

// Pure. `unusable` is set for a device whose compute mode forbids contexts.
[[nodiscard]] DeviceInfo describe_device(const CudaSnapshot& snapshot);
[[nodiscard]] DeviceFacts selection_facts(const CudaSnapshot& snapshot);

// CUDA_VISIBLE_DEVICES, as a listing should say it: "CUDA_VISIBLE_DEVICES is '0,1'"; "" when it is not set.
[[nodiscard]] std::string visibility_note();

}  // namespace kdart::cuda
