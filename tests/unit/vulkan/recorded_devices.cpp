#include "tests/unit/vulkan/recorded_devices.h"

#include <algorithm>
#include <limits>

namespace kdart::test {

using vulkan::PhysicalDeviceFacts;

namespace {

constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkMemoryPropertyFlags lazy = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT;
constexpr VkMemoryPropertyFlags hidden = VK_MEMORY_PROPERTY_PROTECTED_BIT;
constexpr VkMemoryPropertyFlags amd_uncached =
    VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD | VK_MEMORY_PROPERTY_DEVICE_UNCACHED_BIT_AMD;
constexpr VkQueueFlags graphics = VK_QUEUE_GRAPHICS_BIT;
constexpr VkQueueFlags compute = VK_QUEUE_COMPUTE_BIT;
constexpr VkQueueFlags transfer = VK_QUEUE_TRANSFER_BIT;
constexpr VkQueueFlags sparse = VK_QUEUE_SPARSE_BINDING_BIT;

// All features of features.h that a full desktop device of Vulkan 1.3 has.
std::vector<std::string> all_features() {
  return {"bufferDeviceAddress",
          "computeFullSubgroups",
          "hostQueryReset",
          "maintenance4",
          "shaderFloat16",
          "shaderInt16",
          "shaderInt64",
          "shaderInt8",
          "storageBuffer16BitAccess",
          "storageBuffer8BitAccess",
          "subgroupSizeControl",
          "synchronization2",
          "timelineSemaphore",
          "vulkanMemoryModel",
          "vulkanMemoryModelDeviceScope"};
}

void without(std::vector<std::string>& list, std::string_view name) {
  std::erase(list, name);
}

void with(std::vector<std::string>& list, std::string_view name) {
  list.emplace_back(name);
  std::sort(list.begin(), list.end());
}

std::array<std::uint8_t, VK_UUID_SIZE> uuid_of(std::uint8_t first) {
  std::array<std::uint8_t, VK_UUID_SIZE> uuid{};
  for (std::size_t i = 0; i < uuid.size(); ++i) uuid[i] = static_cast<std::uint8_t>(first + 17 * i);
  return uuid;
}

void subgroups(PhysicalDeviceFacts& facts, std::uint32_t usual, std::uint32_t least, std::uint32_t most) {
  facts.subgroup_size = usual;
  facts.subgroup_min = least;
  facts.subgroup_max = most;
  facts.subgroup_range_known = true;
}

PhysicalDeviceFacts radv() {
  PhysicalDeviceFacts facts;
  facts.name = "AMD Radeon RX 6800 XT (RADV NAVI21)";
  facts.driver_name = "radv";
  facts.driver_info = "Mesa 22.3.6";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 3, 230);
  facts.driver_version = VK_MAKE_VERSION(22, 3, 6);
  facts.vendor_id = 0x1002;
  facts.device_id = 0x73bf;
  facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  facts.driver_id = VK_DRIVER_ID_MESA_RADV;
  facts.device_uuid = uuid_of(0x21);
  facts.driver_uuid = uuid_of(0x22);
  facts.cache_uuid = uuid_of(0x23);
  facts.pci = {0, 3, 0, 0};
  facts.extensions = {"VK_AMD_device_coherent_memory", "VK_EXT_memory_budget", "VK_EXT_pci_bus_info",
                      "VK_EXT_subgroup_size_control", "VK_KHR_pipeline_executable_properties"};
  facts.features = all_features();
  with(facts.features, "pipelineExecutableInfo");
  facts.max_shared_memory = 65536;
  facts.max_invocations = 1024;
  facts.max_group_size = {1024, 1024, 1024};
  facts.max_group_count = {65535, 65535, 65535};
  facts.max_push_constants = 256;
  facts.max_allocation = 4294967292;
  facts.max_buffer = 4294967292;
  facts.max_allocation_count = std::numeric_limits<std::uint32_t>::max();
  facts.non_coherent_atom = 64;
  facts.timestamp_period = 10;
  subgroups(facts, 64, 32, 64);
  facts.subgroup_operations = 0xff;
  facts.queue_families = {{graphics | compute | transfer | sparse, 1, 64}, {compute | transfer | sparse, 4, 64}};
  return facts;
}

PhysicalDeviceFacts intel() {
  PhysicalDeviceFacts facts;
  facts.name = "Intel(R) Xe Graphics (TGL GT2)";
  facts.driver_name = "Intel open-source Mesa driver";
  facts.driver_info = "Mesa 23.2.1";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 3, 255);
  facts.driver_version = VK_MAKE_VERSION(23, 2, 1);
  facts.vendor_id = 0x8086;
  facts.device_id = 0x9a49;
  facts.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  facts.driver_id = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA;
  facts.device_uuid = uuid_of(0x31);
  facts.driver_uuid = uuid_of(0x32);
  facts.cache_uuid = uuid_of(0x33);
  facts.pci = {0, 0, 2, 0};
  facts.extensions = {"VK_EXT_memory_budget", "VK_EXT_pci_bus_info", "VK_EXT_subgroup_size_control"};
  facts.features = all_features();
  facts.max_shared_memory = 65536;
  facts.max_invocations = 1024;
  facts.max_group_size = {1024, 1024, 1024};
  facts.max_group_count = {65535, 65535, 65535};
  facts.max_push_constants = 128;
  facts.max_allocation = 4 * recorded_gib;
  facts.max_buffer = 4 * recorded_gib;
  facts.max_allocation_count = std::numeric_limits<std::uint32_t>::max();
  facts.non_coherent_atom = 64;
  facts.timestamp_period = 52.083333333333336;
  subgroups(facts, 32, 8, 32);
  facts.subgroup_operations = 0xff;
  facts.queue_families = {{graphics | compute | transfer, 1, 36}};
  facts.memory_heaps = {{12 * recorded_gib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

}  // namespace

PhysicalDeviceFacts lavapipe() {
  PhysicalDeviceFacts facts;
  facts.name = "llvmpipe (LLVM 15.0.6, 256 bits)";
  facts.driver_name = "llvmpipe";
  facts.driver_info = "Mesa 22.3.6 (LLVM 15.0.6)";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 3, 230);
  facts.driver_version = 1;
  facts.vendor_id = VK_VENDOR_ID_MESA;
  facts.type = VK_PHYSICAL_DEVICE_TYPE_CPU;
  facts.driver_id = VK_DRIVER_ID_MESA_LLVMPIPE;
  facts.device_uuid = {0x6d, 0x65, 0x73, 0x61, 0x32, 0x32, 0x2e, 0x33, 0x2e, 0x36};
  facts.driver_uuid = {0x6c, 0x6c, 0x76, 0x6d, 0x70, 0x69, 0x70, 0x65, 0x55, 0x55, 0x49, 0x44};
  facts.cache_uuid = {0x76, 0x61, 0x6c, 0x2d, 0x25, 0x73};
  facts.extensions = {"VK_EXT_subgroup_size_control", "VK_KHR_8bit_storage",     "VK_KHR_buffer_device_address",
                      "VK_KHR_maintenance4",          "VK_KHR_synchronization2", "VK_KHR_timeline_semaphore"};
  facts.features = all_features();
  facts.max_shared_memory = 32768;
  facts.max_invocations = 1024;
  facts.max_group_size = {1024, 1024, 1024};
  facts.max_group_count = {65535, 65535, 65535};
  facts.max_push_constants = 128;
  facts.max_allocation = 2 * recorded_gib;
  facts.max_buffer = std::numeric_limits<std::uint32_t>::max();
  facts.max_allocation_count = std::numeric_limits<std::uint32_t>::max();
  facts.non_coherent_atom = 64;
  facts.timestamp_period = 1;
  subgroups(facts, 8, 8, 8);
  facts.signed_zero_inf_nan_preserve = true;
  facts.rounding_to_nearest_even = true;
  facts.subgroup_operations = 0xbf;  // all of Vulkan 1.1's but clustered; quad is there
  facts.queue_families = {{graphics | compute | transfer, 1, 64}};
  facts.memory_types = {{local | visible | coherent | cached, 0}};
  facts.memory_heaps = {{2 * recorded_gib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

PhysicalDeviceFacts nvidia_h200() {
  PhysicalDeviceFacts facts;
  facts.name = "NVIDIA H200";
  facts.driver_name = "NVIDIA";
  facts.driver_info = "580.65.06";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 4, 312);
  facts.driver_version = 580U << 22 | 65U << 14 | 6U << 6;
  facts.vendor_id = 0x10de;
  facts.device_id = 0x2335;
  facts.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  facts.driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
  facts.device_uuid = uuid_of(0x41);
  facts.driver_uuid = uuid_of(0x42);
  facts.cache_uuid = uuid_of(0x43);
  facts.pci = {0, 0x8d, 0, 0};
  facts.extensions = {"VK_EXT_memory_budget",
                      "VK_EXT_pci_bus_info",
                      "VK_EXT_subgroup_size_control",
                      "VK_KHR_cooperative_matrix",
                      "VK_KHR_pipeline_executable_properties",
                      "VK_KHR_shader_bfloat16",
                      "VK_NV_cooperative_matrix2"};
  facts.features = all_features();
  with(facts.features, "pipelineExecutableInfo");
  facts.max_shared_memory = 49152;
  facts.max_invocations = 1024;
  facts.max_group_size = {1024, 1024, 64};
  facts.max_group_count = {2147483647, 65535, 65535};
  facts.max_push_constants = 256;
  facts.max_allocation = 4 * recorded_gib - 2 * recorded_mib;
  facts.max_buffer = std::uint64_t{1} << 40;
  facts.max_allocation_count = 4294967295;
  facts.non_coherent_atom = 64;
  facts.timestamp_period = 1;
  subgroups(facts, 32, 32, 32);
  facts.signed_zero_inf_nan_preserve = true;
  facts.rounding_to_nearest_even = true;
  facts.subgroup_operations = 0xff | VK_SUBGROUP_FEATURE_PARTITIONED_BIT_NV;
  facts.queue_families = {{graphics | compute | transfer | sparse, 16, 64},
                          {transfer | sparse, 2, 64},
                          {compute | transfer | sparse, 8, 64},
                          {transfer | sparse | VK_QUEUE_VIDEO_DECODE_BIT_KHR, 1, 32}};
  facts.memory_types = {{0, 1},
                        {local, 0},
                        {local, 0},
                        {visible | coherent, 1},
                        {visible | coherent | cached, 1},
                        {local | visible | coherent, 2}};
  facts.memory_heaps = {{140 * recorded_gib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT},
                        {94 * recorded_gib, 0},
                        {246 * recorded_mib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

PhysicalDeviceFacts radv_navi21() {
  PhysicalDeviceFacts facts = radv();
  facts.memory_types = {{local, 0},
                        {local, 0},
                        {visible | coherent, 1},
                        {local | visible | coherent, 2},
                        {local | visible | coherent, 2},
                        {visible | coherent | cached, 1},
                        {visible | coherent | cached, 1},
                        {local | amd_uncached, 0},
                        {visible | coherent | amd_uncached, 1},
                        {local | visible | coherent | amd_uncached, 2},
                        {visible | coherent | cached | amd_uncached, 1}};
  facts.memory_heaps = {{16 * recorded_gib - 256 * recorded_mib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT},
                        {31 * recorded_gib, 0},
                        {256 * recorded_mib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

PhysicalDeviceFacts radv_navi21_resizable() {
  PhysicalDeviceFacts facts = radv();
  facts.memory_types = {{local, 1},
                        {visible | coherent, 0},
                        {local | visible | coherent, 1},
                        {visible | coherent | cached, 0},
                        {local | amd_uncached, 1}};
  facts.memory_heaps = {{31 * recorded_gib, 0}, {16 * recorded_gib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

PhysicalDeviceFacts radv_without_card() {
  PhysicalDeviceFacts facts = radv();
  facts.name = "Null hardware (RADV NAVI21)";
  facts.device_id = 0x73a0;
  facts.pci = vulkan::PciAddress{};
  facts.device_uuid = {};
  facts.timestamp_period = std::numeric_limits<double>::infinity();
  facts.queue_families = {{graphics | compute | transfer | sparse, 1, 64}};
  return facts;
}

PhysicalDeviceFacts anv_like() {
  PhysicalDeviceFacts facts = intel();
  facts.memory_types = {{local, 0}, {local | visible | coherent | cached, 0}};
  return facts;
}

PhysicalDeviceFacts anv_like_without_shared_cache() {
  PhysicalDeviceFacts facts = intel();
  facts.name = "Intel(R) Graphics (ADL-N)";
  facts.device_id = 0x46d1;
  facts.memory_types = {{local, 0}, {local | visible | coherent, 0}, {local | visible | cached, 0}};
  return facts;
}

PhysicalDeviceFacts adreno_like() {
  PhysicalDeviceFacts facts;
  facts.name = "Adreno (TM) 740";
  facts.driver_name = "Qualcomm Technologies Inc. Adreno Vulkan Driver";
  facts.driver_info = "Driver Build: 6f9a2c8f23, I0a2b, 1690881422";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 3, 128);
  facts.driver_version = VK_MAKE_VERSION(512, 744, 5);
  facts.vendor_id = 0x5143;
  facts.device_id = 0x43050a01;
  facts.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  facts.driver_id = VK_DRIVER_ID_QUALCOMM_PROPRIETARY;
  facts.device_uuid = uuid_of(0x51);
  facts.driver_uuid = uuid_of(0x52);
  facts.cache_uuid = uuid_of(0x53);
  facts.extensions = {"VK_EXT_subgroup_size_control"};
  facts.features = all_features();
  without(facts.features, "storageBuffer8BitAccess");
  facts.max_shared_memory = 32768;
  facts.max_invocations = 1024;
  facts.max_group_size = {1024, 1024, 64};
  facts.max_group_count = {65535, 65535, 65535};
  facts.max_push_constants = 256;
  facts.max_allocation = 4 * recorded_gib - 4096;
  facts.max_buffer = 4 * recorded_gib - 4096;
  facts.max_allocation_count = 4096;
  facts.non_coherent_atom = 1;
  facts.timestamp_period = 52.083333333333336;
  subgroups(facts, 64, 64, 128);
  facts.subgroup_operations = 0x9f;
  facts.queue_families = {{graphics | compute, 3, 48}};  // states no transfer
  facts.memory_types = {{local, 0},
                        {local | visible | coherent, 0},
                        {local | visible | cached, 0},
                        {local | visible | coherent | cached, 0},
                        {local | lazy, 0},
                        {local | hidden, 0}};
  facts.memory_heaps = {{7 * recorded_gib + 512 * recorded_mib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

PhysicalDeviceFacts old_adreno_like() {
  PhysicalDeviceFacts facts = adreno_like();
  facts.name = "Adreno (TM) 650";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 1, 128);
  facts.driver_version = VK_MAKE_VERSION(512, 502, 0);
  facts.device_id = 0x6050002;
  facts.device_uuid = uuid_of(0x61);
  facts.extensions = {"VK_KHR_driver_properties", "VK_KHR_shader_float16_int8", "VK_KHR_timeline_semaphore"};
  facts.features = {"shaderFloat16", "shaderInt16", "shaderInt8", "storageBuffer16BitAccess", "timelineSemaphore"};
  facts.max_push_constants = 128;
  facts.max_buffer = 0;
  facts.subgroup_min = facts.subgroup_max = facts.subgroup_size;
  facts.subgroup_range_known = false;
  facts.queue_families = {{graphics | compute, 1, 48}};
  return facts;
}

PhysicalDeviceFacts moltenvk_like() {
  PhysicalDeviceFacts facts;
  facts.name = "Apple M1 Max";
  facts.driver_name = "MoltenVK";
  facts.driver_info = "1.2.11";
  facts.api_version = VK_MAKE_API_VERSION(0, 1, 2, 296);
  facts.driver_version = 10211;
  facts.vendor_id = 0x106b;
  facts.device_id = 0xc0603ef;
  facts.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  facts.driver_id = VK_DRIVER_ID_MOLTENVK;
  facts.device_uuid = uuid_of(0x71);
  facts.driver_uuid = uuid_of(0x72);
  facts.cache_uuid = uuid_of(0x73);
  facts.extensions = {"VK_EXT_memory_budget", "VK_EXT_subgroup_size_control", "VK_KHR_portability_subset"};
  facts.features = all_features();
  without(facts.features, "maintenance4");
  without(facts.features, "synchronization2");
  facts.max_shared_memory = 32768;
  facts.max_invocations = 1024;
  facts.max_group_size = {1024, 1024, 1024};
  facts.max_group_count = {1073741824, 1073741824, 1073741824};
  facts.max_push_constants = 4096;
  facts.max_allocation = 36 * recorded_gib;
  facts.max_buffer = 0;
  facts.max_allocation_count = 1073741824;
  facts.non_coherent_atom = 16;
  facts.timestamp_period = 1;
  subgroups(facts, 32, 4, 32);
  facts.subgroup_operations = 0xbf;
  facts.queue_families = {{graphics | compute | transfer, 1, 64},
                          {graphics | compute | transfer, 1, 64},
                          {graphics | compute | transfer, 1, 64},
                          {graphics | compute | transfer, 1, 64}};
  facts.memory_types = {{local, 0}, {local | visible | coherent | cached, 0}, {local | lazy, 0}};
  facts.memory_heaps = {{48 * recorded_gib, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT}};
  return facts;
}

const std::vector<RecordedDevice>& recorded_devices() {
  static const std::vector<RecordedDevice> devices{
      {"lavapipe", lavapipe},
      {"NVIDIA H200", nvidia_h200},
      {"RADV Navi 21", radv_navi21},
      {"RADV Navi 21 with a resizable BAR", radv_navi21_resizable},
      {"RADV without a card", radv_without_card},
      {"ANV-like", anv_like},
      {"ANV-like without a shared cache", anv_like_without_shared_cache},
      {"Adreno-like", adreno_like},
      {"old Adreno-like", old_adreno_like},
      {"MoltenVK-like", moltenvk_like},
  };
  return devices;
}

}  // namespace kdart::test
