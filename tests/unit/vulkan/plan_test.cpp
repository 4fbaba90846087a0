#include "backends/vulkan/plan.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

#include "kdart/contract.h"
#include "tests/support/expect_error.h"
#include "tests/unit/vulkan/recorded_devices.h"

namespace kdart::test {

using vulkan::AdoptedDevice;
using vulkan::DevicePlan;
using vulkan::PhysicalDeviceFacts;
using vulkan::plan_device;

namespace {

using Types = std::vector<std::uint32_t>;
using Names = std::vector<std::string>;

constexpr std::uint64_t all_bits = ~std::uint64_t{0};
constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

// What must come out for one recorded device.
struct Expected {
  PhysicalDeviceFacts facts;
  std::string_view target, vendor, version;
  DeviceType type;
  std::uint32_t family, queues;
  bool timestamps;
  std::uint64_t mask;
  Types device, upload, readback, pinned;
  std::uint64_t block, max_block;
  Names extensions, quirks;
  std::uint64_t groups;
  std::uint32_t tokens;
  std::uint32_t subgroup;  // the size that images may rely on; 0: none
};

// clang-format off
std::vector<Expected> expectations() {
  constexpr std::uint64_t mib = recorded_mib;
  constexpr std::uint64_t gib = recorded_gib;
  return {
      {lavapipe(), "spv1.6", "Mesa", "0.0.1 (Mesa 22.3.6 (LLVM 15.0.6))", DeviceType::cpu,
       0, 1, true, all_bits,
       {0}, {0}, {0}, {0}, 32 * mib, 2 * gib,
       {}, {"loops_end_early"}, 0, 1024, 8},
      // Not the window of 246 MiB; the family of 16 queues, of which 4 are taken.
      {nvidia_h200(), "spv1.6", "NVIDIA", "580.65.06", DeviceType::discrete,
       0, 4, true, all_bits,
       {1, 2, 5}, {3, 4, 5}, {4, 3, 5}, {4, 3, 5}, 256 * mib, 4 * gib - 2 * mib,
       {"VK_EXT_memory_budget"}, {"driver_stays_loaded"}, 262144, 4096, 32},
      // Four compute queues rather than the graphics queue; none of AMD's device-coherent types.
      {radv_navi21(), "spv1.6", "AMD", "Mesa 22.3.6", DeviceType::discrete,
       1, 4, true, all_bits,
       {0, 1, 3, 4}, {2, 5, 6, 3, 4}, {5, 6, 2, 3, 4}, {5, 6, 2, 3, 4}, 252 * mib, 4 * gib - 64 * 1024,
       {"VK_EXT_memory_budget"}, {"bounded_submissions"}, 16384, 4096, 0},
      {radv_navi21_resizable(), "spv1.6", "AMD", "Mesa 22.3.6", DeviceType::discrete,
       1, 4, true, all_bits,
       {0, 2}, {1, 3, 2}, {3, 1, 2}, {3, 1, 2}, 256 * mib, 4 * gib - 64 * 1024,
       {"VK_EXT_memory_budget"}, {"bounded_submissions"}, 16384, 4096, 0},
      {anv_like(), "spv1.6", "Intel", "Mesa 23.2.1", DeviceType::integrated,
       0, 1, true, all_bits >> 28,
       {0, 1}, {1}, {1}, {1}, 192 * mib, 4 * gib,
       {"VK_EXT_memory_budget"}, {"bounded_submissions", "short_launches"}, 16384, 1024, 0},
      // Read-back from cached memory, though it is not coherent.
      {anv_like_without_shared_cache(), "spv1.6", "Intel", "Mesa 23.2.1", DeviceType::integrated,
       0, 1, true, all_bits >> 28,
       {0, 1, 2}, {1}, {2, 1}, {1}, 192 * mib, 4 * gib,
       {"VK_EXT_memory_budget"}, {"bounded_submissions", "short_launches"}, 16384, 1024, 0},
      // Its family states no transfer, which compute implies.
      {adreno_like(), "spv1.6", "Qualcomm", "512.744.5 (Driver Build: 6f9a2c8f23, I0a2b, 1690881422)",
       DeviceType::integrated,
       0, 3, true, all_bits >> 16,
       {0, 1, 2, 3}, {1, 3}, {3, 2, 1}, {3, 1}, 120 * mib, 4 * gib - 64 * 1024,
       {}, {"short_launches"}, 262144, 1024, 0},
      {moltenvk_like(), "spv1.5", "Apple", "1.2.11", DeviceType::integrated,
       0, 1, false, all_bits,
       {0, 1}, {1}, {1}, {1}, 256 * mib, 36 * gib,
       {"VK_EXT_memory_budget", "VK_KHR_portability_subset"}, {"no_timestamps", "short_launches"}, 262144, 1024, 0},
  };
}
// clang-format on

bool has(const Names& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// The device with one of its facts changed.
template <class Change>
PhysicalDeviceFacts changed(PhysicalDeviceFacts facts, const Change& change) {
  change(facts);
  return facts;
}

Names missing_of(const PhysicalDeviceFacts& facts) {
  return plan_device(facts, {}).missing;
}

AdoptedDevice adopted_lavapipe() {
  return {VK_API_VERSION_1_2,
          {},
          {"bufferDeviceAddress", "shaderInt64", "storageBuffer16BitAccess", "timelineSemaphore"},
          0};
}

}  // namespace

TEST_CASE("each recorded device is used as it should be", "[vulkan][plan]") {
  for (const Expected& expected : expectations()) {
    INFO(expected.facts.name);
    const DevicePlan plan = plan_device(expected.facts, {});
    CHECK(plan.missing == Names{});
    CHECK(plan.info.target == expected.target);
    CHECK(plan.facts.target == expected.target);
    CHECK(plan.info.vendor == expected.vendor);
    CHECK(plan.info.driver_version == expected.version);
    CHECK(plan.info.type == expected.type);
    CHECK(plan.queue_family == expected.family);
    CHECK(plan.queue_count == expected.queues);
    CHECK(plan.timestamps == expected.timestamps);
    CHECK(plan.timestamp_period == expected.facts.timestamp_period);
    CHECK(plan.timestamp_mask == expected.mask);
    CHECK(plan.device_types == expected.device);
    CHECK(plan.upload_types == expected.upload);
    CHECK(plan.readback_types == expected.readback);
    CHECK(plan.pinned_types == expected.pinned);
    CHECK(plan.block_bytes == expected.block);
    CHECK(plan.max_block_bytes == expected.max_block);
    CHECK(plan.info.limits.allocation == expected.max_block);
    CHECK(plan.non_coherent_atom == expected.facts.non_coherent_atom);
    CHECK(plan.extensions == expected.extensions);
    CHECK(plan.info.quirks == expected.quirks);
    CHECK(plan.submission_groups == expected.groups);
    CHECK(plan.info.limits.max_tokens_per_launch == expected.tokens);
    CHECK(plan.facts.subgroup_min == expected.subgroup);
    CHECK(plan.facts.subgroup_max == expected.subgroup);
  }
}

TEST_CASE("the listing repeats what the device says", "[vulkan][plan]") {
  const DeviceInfo h200 = plan_device(nvidia_h200(), {}).info;
  CHECK(h200.backend == "vulkan");
  CHECK(h200.name == "NVIDIA H200");
  CHECK(h200.uuid ==
        "41526374"
        "8596a7b8"
        "c9daebfc"
        "0d1e2f40");
  CHECK(h200.pci_address == "0000:8d:00.0");
  CHECK(h200.total_memory == 140 * recorded_gib);
  CHECK(h200.limits.shared_memory_per_block == 49152);
  CHECK(h200.limits.threads_per_block == 1024);
  CHECK(h200.limits.block == Dim3{1024, 1024, 64});
  CHECK(h200.limits.grid == Dim3{2147483647, 65535, 65535});
  CHECK(std::is_sorted(h200.features.begin(), h200.features.end()));
  for (const std::string_view feature :
       {"VK_KHR_cooperative_matrix", "VK_KHR_shader_bfloat16", "pipelineExecutableInfo", "shaderFloat16",
        "subgroupSizeControl", "synchronization2"}) {
    INFO(feature);
    CHECK(has(h200.features, feature));
  }
  CHECK_FALSE(has(h200.features, "unified_memory"));

  const DeviceInfo anv = plan_device(anv_like(), {}).info;
  CHECK(anv.limits.subgroup_min == 8);
  CHECK(anv.limits.subgroup_max == 32);
  CHECK(has(anv.features, "unified_memory"));

  const DeviceInfo cpu = plan_device(lavapipe(), {}).info;
  CHECK(cpu.pci_address.empty());
  CHECK(cpu.uuid == "6d65736132322e332e36000000000000");
  CHECK(plan_device(radv_without_card(), {}).info.uuid.empty());
}

TEST_CASE("what images may ask for is what will be enabled", "[vulkan][plan]") {
  const DevicePlan plan = plan_device(lavapipe(), {});
  CHECK(plan.facts.backend == "vulkan");
  CHECK(plan.facts.argument_bytes == max_argument_bytes);
  CHECK(plan.facts.shared_memory_per_block == 32768);
  CHECK(plan.facts.threads_per_block == 1024);
  CHECK(plan.features == Names{"bufferDeviceAddress", "maintenance4", "shaderFloat16", "shaderInt16", "shaderInt64",
                               "shaderInt8", "storageBuffer16BitAccess", "storageBuffer8BitAccess", "timelineSemaphore",
                               "vulkanMemoryModel", "vulkanMemoryModelDeviceScope"});
  CHECK(plan.facts.capabilities == Names{"Float16",
                                         "GroupNonUniform",
                                         "GroupNonUniformArithmetic",
                                         "GroupNonUniformBallot",
                                         "GroupNonUniformQuad",
                                         "GroupNonUniformShuffle",
                                         "GroupNonUniformShuffleRelative",
                                         "GroupNonUniformVote",
                                         "Int16",
                                         "Int64",
                                         "Int8",
                                         "Matrix",
                                         "PhysicalStorageBufferAddresses",
                                         "RoundingModeRTE",
                                         "Shader",
                                         "SignedZeroInfNanPreserve",
                                         "StorageBuffer16BitAccess",
                                         "StorageBuffer8BitAccess",
                                         "StorageUniformBufferBlock16",
                                         "VulkanMemoryModel",
                                         "VulkanMemoryModelDeviceScope"});

  // Each feature that the device lacks takes its capability with it, and nothing else.
  for (const auto& [feature, capability] :
       std::vector<std::pair<std::string, std::string>>{{"shaderFloat16", "Float16"},
                                                        {"shaderInt16", "Int16"},
                                                        {"shaderInt8", "Int8"},
                                                        {"storageBuffer8BitAccess", "StorageBuffer8BitAccess"},
                                                        {"vulkanMemoryModel", "VulkanMemoryModel"}}) {
    INFO(feature);
    const DevicePlan less =
        plan_device(changed(lavapipe(), [&](PhysicalDeviceFacts& f) { std::erase(f.features, feature); }), {});
    CHECK(less.missing == Names{});
    CHECK_FALSE(has(less.features, feature));
    Names capabilities = plan.facts.capabilities;
    std::erase(capabilities, capability);
    CHECK(less.facts.capabilities == capabilities);
  }
  // So do the promises about floats.
  const DevicePlan keeps =
      plan_device(changed(lavapipe(), [](PhysicalDeviceFacts& f) { f.denorm_preserve = true; }), {});
  CHECK(has(keeps.facts.capabilities, "DenormPreserve"));
  CHECK_FALSE(has(keeps.info.features, "denormals_may_flush"));
  CHECK_FALSE(has(plan.facts.capabilities, "DenormPreserve"));
  CHECK(has(plan.info.features, "denormals_may_flush"));
  const auto loose = changed(lavapipe(), [](PhysicalDeviceFacts& f) { f.signed_zero_inf_nan_preserve = false; });
  CHECK_FALSE(has(plan_device(loose, {}).facts.capabilities, "SignedZeroInfNanPreserve"));
  // maintenance4 of Vulkan 1.2 would need its extension; nothing here uses it then.
  const auto older = changed(lavapipe(), [](PhysicalDeviceFacts& f) { f.api_version = VK_API_VERSION_1_2; });
  CHECK_FALSE(has(plan_device(older, {}).features, "maintenance4"));
  CHECK(plan_device(older, {}).facts.target == "spv1.5");
}

TEST_CASE("subgroup sizes are promised where there is one alone", "[vulkan][plan]") {
  const auto silent = changed(nvidia_h200(), [](PhysicalDeviceFacts& f) { f.subgroup_range_known = false; });
  CHECK(plan_device(silent, {}).facts.subgroup_max == 0);  // Intel's older drivers report 32 and run 8 or 16
  CHECK(plan_device(silent, {}).info.limits.subgroup_max == 32);
  CHECK(plan_device(nvidia_h200(), {}).facts.subgroup_max == 32);
}

TEST_CASE("each thing that a device lacks is named", "[vulkan][plan]") {
  for (const std::string feature :
       {"bufferDeviceAddress", "shaderInt64", "storageBuffer16BitAccess", "timelineSemaphore"}) {
    CHECK(missing_of(changed(lavapipe(), [&](PhysicalDeviceFacts& f) { std::erase(f.features, feature); })) ==
          Names{feature});
  }
  CHECK(missing_of(old_adreno_like()) == Names{"Vulkan 1.2 (it has 1.1)", "bufferDeviceAddress", "shaderInt64"});
  CHECK(missing_of(radv_without_card()) == Names{"a device-local memory type", "a host-visible, coherent memory type"});

  const auto lavapipe_with = [](auto change) { return missing_of(changed(lavapipe(), change)); };
  CHECK(lavapipe_with([](auto& f) { f.max_push_constants = 127; }) ==
        Names{"128 bytes of push constants (it has 127)"});
  CHECK(lavapipe_with([](auto& f) { f.max_shared_memory = 16383; }) ==
        Names{"16384 bytes of shared memory (it has 16383)"});
  CHECK(lavapipe_with([](auto& f) { f.max_shared_memory = 16384; }) == Names{});
  CHECK(lavapipe_with([](auto& f) { f.max_invocations = 255; }) == Names{"256 invocations per workgroup (it has 255)"});
  CHECK(lavapipe_with([](auto& f) { f.max_group_size[0] = 128; }) ==
        Names{"256 invocations per workgroup (it has 128)"});
  CHECK(lavapipe_with([](auto& f) { f.queue_families[0].flags = VK_QUEUE_GRAPHICS_BIT; }) ==
        Names{"a queue family with compute"});
  CHECK(lavapipe_with([](auto& f) { f.queue_families[0].count = 0; }) == Names{"a queue family with compute"});
  CHECK(lavapipe_with([](auto& f) { f.memory_types = {{visible | coherent, 0}}; }) ==
        Names{"a device-local memory type"});
  CHECK(lavapipe_with([](auto& f) { f.memory_types = {{local | visible, 0}}; }) ==
        Names{"a host-visible, coherent memory type"});

  // Of Vulkan 1.0 nothing more is known, and nothing more is said.
  PhysicalDeviceFacts ancient;
  ancient.name = "old";
  ancient.api_version = VK_API_VERSION_1_0;
  ancient.queue_families = {{VK_QUEUE_COMPUTE_BIT, 1, 64}};
  const DevicePlan plan = plan_device(ancient, {});
  CHECK(plan.missing == Names{"Vulkan 1.2 (it has 1.0)"});
  CHECK(plan.info.name == "old");
  CHECK(plan.info.vendor == "0x0000");
}

TEST_CASE("queues with timestamps go before more queues without", "[vulkan][plan]") {
  const auto family_of = [](std::vector<vulkan::QueueFamilyFacts> families) {
    return plan_device(changed(lavapipe(), [&](PhysicalDeviceFacts& f) { f.queue_families = families; }), {})
        .queue_family;
  };
  CHECK(family_of({{VK_QUEUE_COMPUTE_BIT, 8, 0}, {VK_QUEUE_COMPUTE_BIT, 1, 36}}) == 1);
  CHECK(family_of({{VK_QUEUE_COMPUTE_BIT, 2, 36}, {VK_QUEUE_COMPUTE_BIT, 3, 64}}) == 1);
  CHECK(family_of({{VK_QUEUE_COMPUTE_BIT, 3, 36}, {VK_QUEUE_COMPUTE_BIT, 3, 64}}) == 0);
  CHECK(family_of({{VK_QUEUE_TRANSFER_BIT, 8, 64}, {VK_QUEUE_COMPUTE_BIT, 1, 64}}) == 1);

  CHECK_FALSE(plan_device(radv_without_card(), {}).timestamps);  // of an infinite period
  CHECK_FALSE(plan_device(changed(lavapipe(), [](auto& f) { f.timestamp_period = 0; }), {}).timestamps);
  CHECK_FALSE(plan_device(changed(lavapipe(), [](auto& f) { f.queue_families[0].timestamp_bits = 0; }), {}).timestamps);
}

TEST_CASE("blocks follow the heap and the driver's limits", "[vulkan][plan]") {
  const auto with_heap = [](std::uint64_t bytes) {
    return plan_device(changed(lavapipe(), [&](auto& f) { f.memory_heaps[0].bytes = bytes; }), {});
  };
  CHECK(with_heap(32 * recorded_mib).block_bytes == recorded_mib);
  CHECK(with_heap(32 * recorded_mib).max_block_bytes == 32 * recorded_mib);
  CHECK(with_heap(1000 * recorded_mib).block_bytes == 15 * recorded_mib);
  CHECK(with_heap(64 * recorded_gib).block_bytes == 256 * recorded_mib);
  CHECK(with_heap(64 * recorded_gib).max_block_bytes == 2 * recorded_gib);
  CHECK(with_heap(recorded_mib / 2).block_bytes == recorded_mib / 2);

  const auto unlimited = changed(lavapipe(), [](auto& f) {
    f.max_allocation = 0;
    f.max_buffer = 0;
  });
  CHECK(plan_device(unlimited, {}).max_block_bytes == 2 * recorded_gib);
  const auto narrow = changed(lavapipe(), [](auto& f) { f.max_buffer = 128 * recorded_mib - 1; });
  CHECK(plan_device(narrow, {}).max_block_bytes == 128 * recorded_mib - 64 * 1024);
}

TEST_CASE("of an adopted device only what its owner lists is used", "[vulkan][plan]") {
  const AdoptedDevice bare = adopted_lavapipe();
  const DevicePlan plan = plan_device(lavapipe(), {}, bare);
  CHECK(plan.missing == Names{});
  CHECK(plan.features == bare.features);
  CHECK(plan.extensions == Names{});
  CHECK(plan.info.target == "spv1.5");  // as the owner uses it, though the device has 1.3
  CHECK(has(plan.facts.capabilities, "Int64"));
  CHECK_FALSE(has(plan.facts.capabilities, "Float16"));
  CHECK_FALSE(has(plan.facts.capabilities, "Int8"));

  AdoptedDevice more = bare;
  more.features.emplace_back("shaderFloat16");
  more.features.emplace_back("no_such_feature");
  CHECK(has(plan_device(lavapipe(), {}, more).facts.capabilities, "Float16"));
  CHECK_FALSE(has(plan_device(lavapipe(), {}, more).features, "no_such_feature"));

  // A claim that the device cannot keep counts for nothing.
  const auto weak = changed(lavapipe(), [](auto& f) { std::erase(f.features, "shaderInt64"); });
  CHECK(plan_device(weak, {}, bare).missing == Names{"shaderInt64"});

  for (const std::string& feature : bare.features) {
    AdoptedDevice less = bare;
    std::erase(less.features, feature);
    const Names missing = plan_device(lavapipe(), {}, less).missing;
    REQUIRE(missing.size() == 1);
    CHECK(missing[0] == feature + " (the device has it, but it is not listed as enabled)");
  }

  AdoptedDevice old = bare;
  old.api_version = VK_API_VERSION_1_1;
  CHECK(plan_device(lavapipe(), {}, old).missing == Names{"Vulkan 1.2 (it is used as 1.1)"});
}

TEST_CASE("an adopted device keeps its owner's queue family and extensions", "[vulkan][plan]") {
  AdoptedDevice adopted = adopted_lavapipe();
  adopted.queue_family = 0;
  adopted.extensions = {"VK_EXT_memory_budget", "VK_KHR_swapchain"};
  const DevicePlan plan = plan_device(radv_navi21(), {}, adopted);
  CHECK(plan.missing == Names{});
  CHECK(plan.queue_family == 0);  // though family 1 has more queues
  CHECK(plan.queue_count == 1);
  CHECK(plan.extensions == Names{"VK_EXT_memory_budget"});

  adopted.extensions = {};
  CHECK(plan_device(radv_navi21(), {}, adopted).extensions == Names{});
  adopted.queue_family = 1;
  CHECK(plan_device(nvidia_h200(), {}, adopted).missing == Names{"compute on queue family 1"});
  adopted.queue_family = 9;
  CHECK(plan_device(nvidia_h200(), {}, adopted).missing == Names{"compute on queue family 9"});
}

TEST_CASE("driver versions read as their vendors write them", "[vulkan][plan]") {
  const auto version_of = [](VkDriverId driver, std::uint32_t vendor, std::uint32_t version, std::string info) {
    PhysicalDeviceFacts facts = lavapipe();
    facts.driver_id = driver;
    facts.vendor_id = vendor;
    facts.driver_version = version;
    facts.driver_info = std::move(info);
    return plan_device(facts, {}).info.driver_version;
  };
  CHECK(version_of(VK_DRIVER_ID_NVIDIA_PROPRIETARY, 0x10de, 535U << 22 | 54U << 14 | 3U << 6, "") == "535.54.03");
  CHECK(version_of(VK_DRIVER_ID_NVIDIA_PROPRIETARY, 0x10de, 535U << 22 | 54U << 14 | 3U << 6 | 2, "") == "535.54.03.2");
  CHECK(version_of(VkDriverId{}, 0x10de, 470U << 22 | 82U << 14, "") == "470.82.00");
  CHECK(version_of(VK_DRIVER_ID_MESA_NVK, 0x10de, VK_MAKE_VERSION(24, 1, 0), "Mesa 24.1.0") == "Mesa 24.1.0");
  CHECK(version_of(VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS, 0x8086, 101U << 14 | 2115U, "Intel driver") ==
        "101.2115 (Intel driver)");
  CHECK(version_of(VK_DRIVER_ID_AMD_PROPRIETARY, 0x1002, VK_MAKE_VERSION(2, 0, 169), "") == "2.0.169");
}

}  // namespace kdart::test
