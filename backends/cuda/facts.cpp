#include "backends/cuda/facts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "backends/cuda/errors.h"
#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "core/runtime/ptx_isa.h"

namespace kdart::cuda {
namespace {

// The version of the kernel's module, which the driver API does not tell.
std::string kernel_driver_version() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  file >> version;
  return version;
}

std::string hex(const CUuuid& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) text += detail::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

class Attributes {
 public:
  Attributes(const Functions& cu, CUdevice device) : cu_(&cu), device_(device) {}

  [[nodiscard]] int operator[](int attribute) const {
    int value = 0;
    check_cuda(cu_->device_get_attribute(&value, attribute, device_), asking);
    return value;
  }
  [[nodiscard]] std::uint32_t count(int attribute) const {
    return static_cast<std::uint32_t>(std::max(0, (*this)[attribute]));
  }
  // 0 where the driver does not know the attribute.
  [[nodiscard]] std::uint32_t count_if_known(int attribute) const {
    int value = 0;
    const CUresult result = cu_->device_get_attribute(&value, attribute, device_);
    if (result == CUDA_ERROR_INVALID_VALUE) return 0;
    check_cuda(result, asking);
    return static_cast<std::uint32_t>(std::max(0, value));
  }

 private:
  static constexpr std::string_view asking = "asking for a device's attributes";

  const Functions* cu_;
  CUdevice device_;
};

std::string version_text(int version) {
  return detail::format("CUDA {}.{}", version / 1000, version % 1000 / 10);
}

void read_limits(const Attributes& attributes, CudaSnapshot& snapshot) {
  snapshot.threads_per_block = attributes.count(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  snapshot.block = {attributes.count(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                    attributes.count(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                    attributes.count(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)};
  snapshot.grid = {attributes.count(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                   attributes.count(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                   attributes.count(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)};
  snapshot.shared_memory = attributes.count(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  snapshot.shared_memory_optin = attributes.count_if_known(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  snapshot.warp = attributes.count(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  snapshot.multiprocessors = attributes.count(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  snapshot.max_pitch = attributes.count(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
}

}  // namespace

std::uint32_t device_count(const Library& library) {
  int count = 0;
  const CUresult result = library.functions().device_get_count(&count);
  if (result == CUDA_ERROR_NO_DEVICE) return 0;
  check_cuda(result, "counting CUDA devices");
  return static_cast<std::uint32_t>(std::max(0, count));
}

CudaSnapshot read_snapshot(const Library& library, std::uint32_t index) {
  const Functions& cu = library.functions();
  CUdevice device = 0;
  check_cuda(cu.device_get(&device, static_cast<int>(index)), "asking for a CUDA device");
  const Attributes attributes(cu, device);

  CudaSnapshot snapshot;
  snapshot.index = index;
  std::array<char, 256> text{};
  check_cuda(cu.device_get_name(text.data(), static_cast<int>(text.size()) - 1, device), "asking for a device's name");
  snapshot.name = text.data();
  CUuuid uuid{};
  check_cuda(cu.device_get_uuid(&uuid, device), "asking for a device's UUID");
  snapshot.uuid = hex(uuid);
  text.fill('\0');
  if (cu.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()) - 1, device) == CUDA_SUCCESS) {
    snapshot.pci_address = text.data();
    for (char& c : snapshot.pci_address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::size_t bytes = 0;
  check_cuda(cu.device_total_mem(&bytes, device), "asking for a device's memory");
  snapshot.total_memory = bytes;
  snapshot.cuda_version = library.cuda_version();
  snapshot.kernel_driver = kernel_driver_version();
  snapshot.library = library.file();
  snapshot.major = attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
  snapshot.minor = attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
  read_limits(attributes, snapshot);
  snapshot.integrated = attributes[CU_DEVICE_ATTRIBUTE_INTEGRATED] != 0;
  snapshot.prohibited = attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_MODE] == CU_COMPUTEMODE_PROHIBITED;
  snapshot.pools = attributes.count_if_known(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) != 0;
  snapshot.host_page_tables =
      attributes.count_if_known(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) != 0;
  snapshot.launch_attributes = cu.launch_kernel_ex != nullptr;
  return snapshot;
}

DeviceInfo describe_device(const CudaSnapshot& snapshot) {
  DeviceInfo info;
  info.backend = "cuda";
  info.index = snapshot.index;
  info.id = detail::format("cuda:{}", snapshot.index);
  info.name = snapshot.name;
  info.vendor = "NVIDIA";
  info.type = snapshot.integrated ? DeviceType::integrated : DeviceType::discrete;
  info.uuid = snapshot.uuid;
  info.pci_address = snapshot.pci_address;
  info.target = detail::format("sm_{}{}", snapshot.major, snapshot.minor);
  info.driver_version = version_text(snapshot.cuda_version);
  if (!snapshot.kernel_driver.empty()) info.driver_version += detail::format(" (driver {})", snapshot.kernel_driver);
  info.driver_library = snapshot.library;
  info.total_memory = snapshot.total_memory;
  info.limits.shared_memory_per_block = std::max(snapshot.shared_memory, snapshot.shared_memory_optin);
  info.limits.threads_per_block = snapshot.threads_per_block;
  info.limits.block = snapshot.block;
  info.limits.grid = snapshot.grid;
  info.limits.allocation = snapshot.total_memory;
  info.limits.subgroup_min = info.limits.subgroup_max = snapshot.warp;
  if (snapshot.major >= 9 && snapshot.launch_attributes) info.features = {"cluster_launch", "dependent_launch"};
  if (snapshot.pools) info.features.emplace_back("memory_pools");
  if (snapshot.prohibited) info.unusable = "its compute mode is 'prohibited': no program may have a context on it";
  info.note = visibility_note();
  return info;
}

DeviceFacts selection_facts(const CudaSnapshot& snapshot) {
  const DeviceInfo info = describe_device(snapshot);
  DeviceFacts facts;
  facts.backend = info.backend;
  facts.target = info.target;
  facts.ptx_isa = detail::ptx_isa_of_cuda(snapshot.cuda_version);
  facts.driver_version = info.driver_version;
  facts.shared_memory_per_block = info.limits.shared_memory_per_block;
  facts.threads_per_block = info.limits.threads_per_block;
  facts.subgroup_min = facts.subgroup_max = snapshot.warp;
  return facts;
}

std::string visibility_note() {
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  return value == nullptr ? std::string() : detail::format("CUDA_VISIBLE_DEVICES is {}", detail::quote(value));
}

}  // namespace kdart::cuda
