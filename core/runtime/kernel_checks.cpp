#include "core/runtime/kernel_checks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::detail {
namespace {

constexpr std::array<char, 3> axis_names{'x', 'y', 'z'};

std::array<std::uint32_t, 3> axes(Dim3 dim) {
  return {dim.x, dim.y, dim.z};
}

void check_argument_count(const ContractKernel& contract, const LaunchRecord& record) {
  const std::size_t expected = contract.args.size();
  if (record.overflow) {
    fail(ErrorCode::invalid_launch,
         "kernel '{}': {} arguments expected, and more than the {} arguments or {} bytes that a launch can carry were "
         "given",
         contract.name, expected, max_kernel_arguments, max_argument_bytes);
  }
  if (record.argument_count < expected) {
    const ContractArg& missing = contract.args[record.argument_count];
    fail(ErrorCode::invalid_launch, "kernel '{}': {} arguments expected, {} given; the first missing is '{}' ({})",
         contract.name, expected, record.argument_count, missing.name, to_string(missing.kind));
  }
  if (record.argument_count > expected) {
    fail(ErrorCode::invalid_launch,
         "kernel '{}': {} arguments expected, {} given; the first too many is number {} ({})", contract.name, expected,
         record.argument_count, expected + 1, to_string(record.slots[expected].kind));
  }
}

// The address in a pointer argument's slot.
std::uint64_t pointer_in(const LaunchRecord& record, const ContractArg& arg) {
  std::uint64_t address = 0;
  std::memcpy(&address, record.arguments.data() + arg.offset, sizeof address);
  return address;
}

}  // namespace

void check_arguments(const ContractKernel& contract, const LaunchRecord& record) {
  check_argument_count(contract, record);
  for (std::size_t i = 0; i < contract.args.size(); ++i) {
    const ContractArg& arg = contract.args[i];
    const LaunchRecord::Slot& slot = record.slots[i];
    if (slot.kind != arg.kind || slot.size != arg.size || slot.offset != arg.offset) {
      fail(ErrorCode::invalid_launch,
           "kernel '{}': argument {} '{}' is {} of {} bytes at offset {}, but {} of {} bytes at {}", contract.name,
           i + 1, arg.name, to_string(arg.kind), arg.size, arg.offset, to_string(slot.kind), slot.size, slot.offset);
    }
    if (arg.kind != ArgKind::ptr) continue;
    const std::uint64_t address = pointer_in(record, arg);
    if (address == 0 && !arg.nullable) {
      fail(ErrorCode::invalid_launch, "kernel '{}': argument {} '{}' is null", contract.name, i + 1, arg.name);
    }
    if (arg.alignment > 1 && address % arg.alignment != 0) {
      fail(ErrorCode::invalid_launch, "kernel '{}': argument {} '{}' is 0x{:x}, not a multiple of {} bytes",
           contract.name, i + 1, arg.name, address, arg.alignment);
    }
  }
  if (record.argument_bytes != contract.argument_bytes) {
    fail(ErrorCode::invalid_launch, "kernel '{}': the argument block has {} bytes, {} expected", contract.name,
         record.argument_bytes, contract.argument_bytes);
  }
}

void check_block(const KernelInfo& kernel, const DeviceInfo& device, Dim3 block, std::uint64_t shared_bytes) {
  const auto sizes = axes(block);
  const auto limits = axes(device.limits.block);
  for (std::size_t i = 0; i < 3; ++i) {
    if (sizes[i] == 0) fail(ErrorCode::invalid_launch, "kernel '{}': block.{} is 0", kernel.name, axis_names[i]);
    if (sizes[i] > limits[i]) {
      fail(ErrorCode::invalid_launch, "kernel '{}': block.{} is {}, more than the {} that {} allows", kernel.name,
           axis_names[i], sizes[i], limits[i], device.id);
    }
  }
  if (block.threads() > kernel.max_threads) {
    fail(ErrorCode::invalid_launch,
         "kernel '{}': a block of {} x {} x {} = {} threads is more than the {} that it allows on {}", kernel.name,
         block.x, block.y, block.z, block.threads(), kernel.max_threads, device.id);
  }
  if (block.threads() < kernel.min_threads) {
    fail(ErrorCode::invalid_launch,
         "kernel '{}': a block of {} x {} x {} = {} threads is less than the {} that it needs", kernel.name, block.x,
         block.y, block.z, block.threads(), kernel.min_threads);
  }
  const std::uint64_t limit = device.limits.shared_memory_per_block;
  const std::uint64_t total = kernel.static_shared_bytes + shared_bytes;  // each fits 32 bits
  if (total > limit) {
    fail(ErrorCode::invalid_launch,
         "kernel '{}': {} bytes of shared memory per block ({} static, {} dynamic) are more than the {} that {} has",
         kernel.name, total, kernel.static_shared_bytes, shared_bytes, limit, device.id);
  }
}

namespace {

void require_feature(const KernelInfo& kernel, const DeviceInfo& device, std::string_view feature,
                     std::string_view what) {
  const auto& features = device.features;
  if (std::find(features.begin(), features.end(), feature) != features.end()) return;
  fail(ErrorCode::unsupported, "kernel '{}': {} needs the feature {}, which {} does not have", kernel.name, what,
       feature, device.id);
}

void check_cluster(const KernelInfo& kernel, const DeviceInfo& device, Dim3 grid, Dim3 cluster) {
  if (cluster == Dim3{1, 1, 1}) return;
  require_feature(kernel, device, "cluster_launch", "a cluster");
  const auto sizes = axes(grid);
  const auto parts = axes(cluster);
  for (std::size_t i = 0; i < 3; ++i) {
    if (parts[i] != 0 && sizes[i] % parts[i] == 0) continue;
    fail(ErrorCode::invalid_launch, "kernel '{}': cluster.{} is {}, which does not divide grid.{}, {}", kernel.name,
         axis_names[i], parts[i], axis_names[i], sizes[i]);
  }
}

}  // namespace

void check_grid(const KernelInfo& kernel, const DeviceInfo& device, Dim3 grid, const LaunchAttributes& attributes) {
  const auto sizes = axes(grid);
  const auto limits = axes(device.limits.grid);
  for (std::size_t i = 0; i < 3; ++i) {
    if (sizes[i] <= limits[i]) continue;
    fail(ErrorCode::invalid_launch, "kernel '{}': grid.{} is {}, more than the {} that {} allows", kernel.name,
         axis_names[i], sizes[i], limits[i], device.id);
  }
  check_cluster(kernel, device, grid, attributes.cluster);
  if (attributes.dependent) require_feature(kernel, device, "dependent_launch", "a dependent launch");
}

void check_manifest_layout(const ContractKernel& contract, const ManifestKernel& stated, std::string_view set) {
  if (stated.args.size() != contract.args.size()) {
    fail(ErrorCode::corrupt_image, "{}: kernel '{}' has {} arguments in the manifest and {} in the contract", set,
         contract.name, stated.args.size(), contract.args.size());
  }
  for (std::size_t i = 0; i < contract.args.size(); ++i) {
    const ContractArg& expected = contract.args[i];
    const ManifestArg& found = stated.args[i];
    if (found.name == expected.name && found.kind == expected.kind && found.offset == expected.offset &&
        found.size == expected.size) {
      continue;
    }
    fail(ErrorCode::corrupt_image,
         "{}: kernel '{}', argument {}: the manifest has {}, {} of {} bytes at offset {}, the contract '{}', {} of {} "
         "bytes at "
         "offset {}",
         set, contract.name, i + 1, quote(found.name), to_string(found.kind), found.size, found.offset, expected.name,
         to_string(expected.kind), expected.size, expected.offset);
  }
  if (stated.argument_bytes != contract.argument_bytes) {
    fail(ErrorCode::corrupt_image,
         "{}: kernel '{}' has an argument block of {} bytes in the manifest and {} in the contract", set, contract.name,
         stated.argument_bytes, contract.argument_bytes);
  }
}

void check_image_layout(const ContractKernel& contract, std::span<const StatedArgument> stated,
                        std::string_view image) {
  if (stated.size() != contract.args.size()) {
    fail(ErrorCode::corrupt_image, "image {}: kernel '{}' takes {} arguments, the contract has {}", image,
         contract.name, stated.size(), contract.args.size());
  }
  for (std::size_t i = 0; i < stated.size(); ++i) {
    const ContractArg& expected = contract.args[i];
    if (stated[i].offset == expected.offset && stated[i].size == expected.size) continue;
    fail(ErrorCode::corrupt_image,
         "image {}: kernel '{}', argument {} '{}': {} bytes at offset {} in the image, {} bytes at offset {} in the "
         "contract",
         image, contract.name, i + 1, expected.name, stated[i].size, stated[i].offset, expected.size, expected.offset);
  }
}

}  // namespace kdart::detail
