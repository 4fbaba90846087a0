// What a launch, and an image, must satisfy before a driver sees it. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kdart/contract.h"
#include "kdart/device_info.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"

namespace kdart::detail {

// Count, kinds, sizes, null and alignment of a launch's arguments against the contract. Throws invalid_launch naming the
// kernel and the argument.
void check_arguments(const ContractKernel& contract, const LaunchRecord& record);
// Block and shared memory (static and dynamic) against kernel and device. Throws invalid_launch naming the kernel, the
// dimension, the value and the limit.
void check_block(const KernelInfo& kernel, const DeviceInfo& device, Dim3 block, std::uint64_t shared_bytes);
// The grid against the device, and cluster and dependent launch against its features. A 0 in the grid passes. Throws
// invalid_launch, unsupported.
void check_grid(const KernelInfo& kernel, const DeviceInfo& device, Dim3 grid, const LaunchAttributes& attributes);

// What a manifest states of one kernel against the contract. Throws corrupt_image naming the kernel and the argument.
void check_manifest_layout(const ContractKernel& contract, const ManifestKernel& stated, std::string_view set);

// The offset and size of one argument, as an image states it.
struct StatedArgument {
  std::uint32_t offset, size;
};
// What an image itself states of one kernel against the contract. Throws corrupt_image.
void check_image_layout(const ContractKernel& contract, std::span<const StatedArgument> stated, std::string_view image);

}  // namespace kdart::detail
