#include "backends/hip/facts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/hip/errors.h"
#include "core/runtime/format.h"
#include "core/runtime/messages.h"

namespace kdart::hip {
namespace {

class Attributes {
 public:
  Attributes(const Functions& hip, std::uint32_t device) : hip_(&hip), device_(static_cast<int>(device)) {}

  [[nodiscard]] std::uint32_t operator[](int attribute) const {
    int value = 0;
    check_hip(hip_->device_get_attribute(&value, attribute, device_), "asking for a device's attributes");
    return static_cast<std::uint32_t>(std::max(0, value));
  }
  // 0 where the runtime does not know the attribute.
  [[nodiscard]] std::uint32_t if_known(int attribute) const {
    int value = 0;
    const hipError_t result = hip_->device_get_attribute(&value, attribute, device_);
    if (result == hipErrorInvalidValue || result == hipErrorNotSupported) return 0;
    check_hip(result, "asking for a device's attributes");
    return static_cast<std::uint32_t>(std::max(0, value));
  }

 private:
  const Functions* hip_;
  int device_;
};

std::string text_at(const std::vector<char>& properties, std::size_t offset) {
  const char* text = properties.data() + offset;
  return {text, ::strnlen(text, properties_text)};
}

// The product's name and the instruction set: the only two that no other call gives. The layout goes with the entry point's
// name; the bare one has meant the older layout ever since there are two.
void read_properties(const Functions& hip, HipSnapshot& snapshot) {
  const bool newer = hip.get_properties_r0600 != nullptr;
  const auto ask = newer                                 ? hip.get_properties_r0600
                   : hip.get_properties_r0000 != nullptr ? hip.get_properties_r0000
                                                         : hip.get_properties;
  std::vector<char> properties(properties_bytes, '\0');
  check_hip(ask(properties.data(), static_cast<int>(snapshot.index)), "asking for a device's properties");
  snapshot.name = text_at(properties, 0);
  snapshot.target = text_at(properties, newer ? properties_arch_r0600 : properties_arch_r0000);
}

// AMD's are sixteen letters and digits; any others are told in hexadecimal.
std::string uuid_text(const hipUUID& uuid) {
  std::string letters, hex;
  bool readable = true;
  for (const char byte : uuid.bytes) {
    readable = readable && std::isalnum(static_cast<unsigned char>(byte)) != 0;
    letters += byte;
    hex += detail::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return readable ? letters : hex;
}

bool has_pools(const Functions& hip) {
  return hip.mem_pool_create != nullptr && hip.mem_pool_destroy != nullptr && hip.mem_pool_get_attribute != nullptr &&
         hip.mem_pool_set_attribute != nullptr && hip.mem_pool_trim_to != nullptr &&
         hip.mem_alloc_from_pool_async != nullptr && hip.mem_free_async != nullptr;
}

void read_limits(const Attributes& attributes, HipSnapshot& snapshot) {
  snapshot.threads_per_block = attributes[hipDeviceAttributeMaxThreadsPerBlock];
  snapshot.block = {attributes[hipDeviceAttributeMaxBlockDimX], attributes[hipDeviceAttributeMaxBlockDimY],
                    attributes[hipDeviceAttributeMaxBlockDimZ]};
  snapshot.grid = {attributes[hipDeviceAttributeMaxGridDimX], attributes[hipDeviceAttributeMaxGridDimY],
                   attributes[hipDeviceAttributeMaxGridDimZ]};
  snapshot.shared_memory = attributes[hipDeviceAttributeMaxSharedMemoryPerBlock];
  snapshot.wave = attributes[hipDeviceAttributeWarpSize];
  snapshot.multiprocessors = attributes[hipDeviceAttributeMultiprocessorCount];
  snapshot.max_pitch = attributes[hipDeviceAttributeMaxPitch];
}

// A packet has its grid in threads, 32 bits to a dimension; so this many blocks of any size can be launched.
std::uint32_t grid_limit(std::uint32_t stated, std::uint32_t threads_per_block) {
  return std::min(stated, std::numeric_limits<std::uint32_t>::max() / std::max(1U, threads_per_block));
}

}  // namespace

std::uint32_t device_count(const Library& library) {
  int count = 0;
  const hipError_t result = library.functions().device_get_count(&count);
  if (result == hipErrorNoDevice) return 0;
  check_hip(result, "counting HIP devices");
  return static_cast<std::uint32_t>(std::max(0, count));
}

HipSnapshot read_snapshot(const Library& library, std::uint32_t index) {
  const Functions& hip = library.functions();
  const Attributes attributes(hip, index);
  HipSnapshot snapshot;
  snapshot.index = index;
  read_properties(hip, snapshot);
  const int device = static_cast<int>(index);
  if (hip.device_get_uuid != nullptr) {
    hipUUID uuid{};
    check_hip(hip.device_get_uuid(&uuid, device), "asking for a device's UUID");
    snapshot.uuid = uuid_text(uuid);
  }
  std::array<char, 64> address{};
  if (hip.device_get_pci_bus_id(address.data(), static_cast<int>(address.size()) - 1, device) == hipSuccess) {
    snapshot.pci_address = address.data();
    for (char& c : snapshot.pci_address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  std::size_t bytes = 0;
  check_hip(hip.device_total_mem(&bytes, device), "asking for a device's memory");
  snapshot.total_memory = bytes;
  snapshot.version = library.version();
  snapshot.library = library.file();
  snapshot.stands_in = library.stands_in();
  read_limits(attributes, snapshot);
  snapshot.integrated = attributes.if_known(hipDeviceAttributeIntegrated) != 0;
  snapshot.prohibited = attributes.if_known(hipDeviceAttributeComputeMode) == hipComputeModeProhibited;
  snapshot.pools = has_pools(hip) && attributes.if_known(hipDeviceAttributeMemoryPoolsSupported) != 0;
  return snapshot;
}

DeviceInfo describe_device(const HipSnapshot& snapshot) {
  DeviceInfo info;
  info.backend = "hip";
  info.index = snapshot.index;
  info.id = detail::format("hip:{}", snapshot.index);
  info.name = snapshot.name;
  info.vendor = snapshot.stands_in.empty() ? "AMD" : "not AMD";
  info.type = snapshot.integrated ? DeviceType::integrated : DeviceType::discrete;
  info.uuid = snapshot.uuid;
  info.pci_address = snapshot.pci_address;
  info.target = snapshot.target;
  info.driver_version = version_text(snapshot.version);
  info.driver_library = snapshot.library;
  info.total_memory = snapshot.total_memory;
  info.limits.shared_memory_per_block = snapshot.shared_memory;
  info.limits.threads_per_block = snapshot.threads_per_block;
  info.limits.block = snapshot.block;
  info.limits.grid = {grid_limit(snapshot.grid.x, snapshot.threads_per_block),
                      grid_limit(snapshot.grid.y, snapshot.threads_per_block),
                      grid_limit(snapshot.grid.z, snapshot.threads_per_block)};
  info.limits.allocation = snapshot.total_memory;
  info.limits.subgroup_min = info.limits.subgroup_max = snapshot.wave;
  if (snapshot.pools) info.features.emplace_back("memory_pools");
  if (snapshot.prohibited) info.unusable = "its compute mode is 'prohibited': no program may have a context on it";
  if (snapshot.target.empty()) info.unusable = "the HIP runtime does not say which instruction set it has";
  info.note = visibility_note();
  if (!snapshot.stands_in.empty()) {
    info.note = detail::format("no AMD GPU: this HIP runtime is {}{}{}", snapshot.stands_in,
                               info.note.empty() ? "" : "; ", info.note);
  }
  return info;
}

DeviceFacts selection_facts(const HipSnapshot& snapshot) {
  const DeviceInfo info = describe_device(snapshot);
  DeviceFacts facts;
  facts.backend = info.backend;
  facts.target = info.target;
  facts.driver_version = info.driver_version;
  facts.shared_memory_per_block = info.limits.shared_memory_per_block;
  facts.threads_per_block = info.limits.threads_per_block;
  facts.subgroup_min = facts.subgroup_max = snapshot.wave;
  return facts;
}

std::string visibility_note() {
  std::string note;
  for (const char* name : {"HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const char* value = std::getenv(name);
    if (value == nullptr) continue;
    note += detail::format("{}{} is {}", note.empty() ? "" : "; ", name, detail::quote(value));
  }
  return note;
}

}  // namespace kdart::hip
