#include "backends/vulkan/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "backends/vulkan/names.h"
#include "backends/vulkan/quirks.h"
#include "core/runtime/format.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint64_t kib = 1024;
constexpr std::uint64_t mib = 1024 * kib;

constexpr std::array<std::string_view, 4> needed_features{"bufferDeviceAddress", "shaderInt64",
                                                          "storageBuffer16BitAccess", "timelineSemaphore"};
constexpr std::uint32_t needed_shared_memory = 16 * kib;
constexpr std::uint32_t needed_invocations = 256;

// Streams take queues in turn; more than a few bring nothing, and drivers keep memory for each.
constexpr std::uint32_t max_queues = 4;

// One dispatch must end before a watchdog resets the GPU, and a prefill launch's time grows with its tokens.
constexpr std::uint32_t tokens_per_launch = 4096;
constexpr std::uint32_t tokens_per_short_launch = 1024;

// A submission is one job to a watchdog. 2^18 workgroups of a projection are about 4 s on a GPU that does 2 TFLOP/s.
constexpr std::uint64_t groups_per_submission = std::uint64_t{1} << 18;
constexpr std::uint64_t groups_per_bounded_submission = std::uint64_t{1} << 14;

// A feature that a kernel image can ask for, as the SPIR-V capability that stands for it.
struct Capability {
  std::string_view feature, name;
};
constexpr std::array<Capability, 10> feature_capabilities{{
    {"shaderInt64", "Int64"},
    {"shaderInt16", "Int16"},
    {"shaderInt8", "Int8"},
    {"shaderFloat16", "Float16"},
    {"bufferDeviceAddress", "PhysicalStorageBufferAddresses"},
    {"storageBuffer16BitAccess", "StorageBuffer16BitAccess"},
    {"storageBuffer16BitAccess", "StorageUniformBufferBlock16"},  // its older name
    {"storageBuffer8BitAccess", "StorageBuffer8BitAccess"},
    {"vulkanMemoryModel", "VulkanMemoryModel"},
    {"vulkanMemoryModelDeviceScope", "VulkanMemoryModelDeviceScope"},
}};

struct SubgroupCapability {
  VkSubgroupFeatureFlags operation;
  std::string_view name;
};
constexpr std::array<SubgroupCapability, 8> subgroup_capabilities{{
    {VK_SUBGROUP_FEATURE_BASIC_BIT, "GroupNonUniform"},
    {VK_SUBGROUP_FEATURE_VOTE_BIT, "GroupNonUniformVote"},
    {VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, "GroupNonUniformArithmetic"},
    {VK_SUBGROUP_FEATURE_BALLOT_BIT, "GroupNonUniformBallot"},
    {VK_SUBGROUP_FEATURE_SHUFFLE_BIT, "GroupNonUniformShuffle"},
    {VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT, "GroupNonUniformShuffleRelative"},
    {VK_SUBGROUP_FEATURE_CLUSTERED_BIT, "GroupNonUniformClustered"},
    {VK_SUBGROUP_FEATURE_QUAD_BIT, "GroupNonUniformQuad"},
}};

bool contains(const std::vector<std::string>& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// Makes one plan, part by part.
class Planner {
 public:
  Planner(const PhysicalDeviceFacts& facts, const std::optional<AdoptedDevice>& adopted)
      : facts_(facts),
        adopted_(adopted ? &*adopted : nullptr),
        version_(adopted ? std::min(adopted->api_version, facts.api_version) : facts.api_version) {}

  [[nodiscard]] DevicePlan plan(const OpenOptions& options) {
    plan_.non_coherent_atom = facts_.non_coherent_atom;
    if (version_ < VK_API_VERSION_1_2) {
      lacks(detail::format("Vulkan 1.2 (it {} {})", adopted_ != nullptr ? "is used as" : "has",
                           api_version_text(version_)));
    }
    if (facts_.api_version >= VK_API_VERSION_1_1) {  // of older ones nothing else is known
      choose_features();
      check_limits();
      choose_memory();
    }
    choose_queue();
    choose_work();
    describe();
    describe_for_images();
    apply_quirks(quirks_in_force(facts_, options));
    return std::move(plan_);
  }

 private:
  void lacks(std::string what) { plan_.missing.push_back(std::move(what)); }

  // Whether the device has a feature in the way that it is used here: the caller of an adopted one enabled it.
  [[nodiscard]] bool has(std::string_view feature) const {
    return has_feature(facts_, feature) && (adopted_ == nullptr || contains(adopted_->features, feature));
  }

  void choose_features();
  void check_limits();
  void choose_queue();
  void choose_memory();
  void choose_block_size();
  void choose_work();
  void describe();
  void describe_limits();
  void describe_for_images();
  void apply_quirks(std::vector<std::string> quirks);

  [[nodiscard]] bool is_discrete() const { return facts_.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU; }
  template <class Fits, class Rank>
  [[nodiscard]] std::vector<std::uint32_t> memory_types(Fits fits, Rank rank) const;

  const PhysicalDeviceFacts& facts_;
  const AdoptedDevice* adopted_;
  std::uint32_t version_;
  DevicePlan plan_;
};

void Planner::choose_features() {
  for (const std::string_view feature : needed_features) {
    if (has(feature)) continue;
    const bool unlisted = adopted_ != nullptr && has_feature(facts_, feature);
    lacks(std::string(feature) + (unlisted ? " (the device has it, but it is not listed as enabled)" : ""));
  }
  std::vector<std::string>& features = plan_.features;
  // What else kernel images may ask for is enabled where it is there, so that what the device is said to be capable of is
  // true; nothing more is.
  for (const Capability& capability : feature_capabilities) {
    if (has(capability.feature) && !contains(features, capability.feature)) features.emplace_back(capability.feature);
  }
  if (has("timelineSemaphore")) features.emplace_back("timelineSemaphore");
  // SPIR-V 1.6 may state a workgroup's size with LocalSizeId, which needs it.
  if (version_ >= VK_API_VERSION_1_3 && has("maintenance4")) features.emplace_back("maintenance4");
  std::sort(features.begin(), features.end());
  for (const std::string_view extension : {"VK_EXT_memory_budget", "VK_KHR_portability_subset"}) {
    if (has_extension(facts_, extension) && (adopted_ == nullptr || contains(adopted_->extensions, extension)))
      plan_.extensions.emplace_back(extension);
  }
}

void Planner::check_limits() {
  if (facts_.max_push_constants < push_constant_bytes) {
    lacks(detail::format("{} bytes of push constants (it has {})", push_constant_bytes, facts_.max_push_constants));
  }
  if (facts_.max_shared_memory < needed_shared_memory) {
    lacks(detail::format("{} bytes of shared memory (it has {})", needed_shared_memory, facts_.max_shared_memory));
  }
  const std::uint32_t invocations = std::min(facts_.max_invocations, facts_.max_group_size[0]);
  if (invocations < needed_invocations)
    lacks(detail::format("{} invocations per workgroup (it has {})", needed_invocations, invocations));
}

void Planner::choose_queue() {
  const QueueFamilyFacts* best = nullptr;
  // Timestamps first; then the family with most queues, for streams run beside each other; then the first, which is the
  // one that every program uses. Transfer is implied by compute and need not be stated.
  const auto rank = [](const QueueFamilyFacts& family) { return std::pair(family.timestamp_bits != 0, family.count); };
  for (std::uint32_t i = 0; i < facts_.queue_families.size(); ++i) {
    const QueueFamilyFacts& family = facts_.queue_families[i];
    if ((family.flags & VK_QUEUE_COMPUTE_BIT) == 0 || family.count == 0) continue;
    if (adopted_ != nullptr && adopted_->queue_family != i) continue;
    if (best == nullptr || rank(family) > rank(*best)) {
      best = &family;
      plan_.queue_family = i;
    }
  }
  if (best == nullptr) {
    lacks(adopted_ == nullptr ? std::string("a queue family with compute")
                              : detail::format("compute on queue family {}", adopted_->queue_family));
    return;
  }
  plan_.queue_count = adopted_ == nullptr ? std::min(best->count, max_queues) : 1;
  // A driver with no device behind it states a period of infinity.
  plan_.timestamps = best->timestamp_bits != 0 && std::isfinite(facts_.timestamp_period) && facts_.timestamp_period > 0;
  if (!plan_.timestamps) return;
  plan_.timestamp_period = facts_.timestamp_period;
  plan_.timestamp_mask =
      best->timestamp_bits >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << best->timestamp_bits) - 1;
}

// The types that fit, by ascending rank, then as the driver has them. Types with any property but the four plain ones
// are left out: protected, lazily allocated, AMD's device-coherent and uncached (slow, and a feature of their own), RDMA.
template <class Fits, class Rank>
std::vector<std::uint32_t> Planner::memory_types(Fits fits, Rank rank) const {
  constexpr VkMemoryPropertyFlags plain = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                          VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  std::vector<std::uint32_t> types;
  for (std::uint32_t i = 0; i < facts_.memory_types.size(); ++i) {
    const MemoryTypeFacts& type = facts_.memory_types[i];
    if ((type.flags & ~plain) == 0 && type.heap < facts_.memory_heaps.size() && fits(type.flags)) types.push_back(i);
  }
  std::sort(types.begin(), types.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::pair(rank(facts_.memory_types[a]), a) < std::pair(rank(facts_.memory_types[b]), b);
  });
  return types;
}

void Planner::choose_memory() {
  constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT;
  constexpr VkMemoryPropertyFlags coherent = VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  constexpr VkMemoryPropertyFlags cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  const auto has_all = [](VkMemoryPropertyFlags flags, VkMemoryPropertyFlags wanted) {
    return (flags & wanted) == wanted;
  };

  // The largest heap first: the small one of a discrete GPU is a window for the host. Within it what the host does not
  // see, which may be compressed, and what it does not cache, which costs no snooping.
  plan_.device_types = memory_types([&](auto flags) { return has_all(flags, local); },
                                    [&](const MemoryTypeFacts& type) {
                                      const std::uint64_t bytes = facts_.memory_heaps[type.heap].bytes;
                                      return std::tuple(~bytes, type.flags & visible, type.flags & cached);
                                    });
  // On a discrete GPU the host's side of a transfer is system memory; the window is small and slow to read.
  const auto window = [&](const MemoryTypeFacts& type) { return is_discrete() && has_all(type.flags, local); };
  const auto fits_host = [&](auto flags) { return has_all(flags, visible | coherent); };
  plan_.upload_types = memory_types(
      fits_host, [&](const MemoryTypeFacts& type) { return std::pair(window(type), has_all(type.flags, cached)); });
  plan_.pinned_types = memory_types(
      fits_host, [&](const MemoryTypeFacts& type) { return std::pair(window(type), !has_all(type.flags, cached)); });
  plan_.readback_types =
      memory_types([&](auto flags) { return has_all(flags, visible) && (flags & (coherent | cached)) != 0; },
                   [&](const MemoryTypeFacts& type) {
                     return std::tuple(window(type), !has_all(type.flags, cached), !has_all(type.flags, coherent));
                   });
  if (plan_.device_types.empty()) lacks("a device-local memory type");
  if (plan_.upload_types.empty()) lacks("a host-visible, coherent memory type");
  choose_block_size();
}

void Planner::choose_block_size() {
  if (plan_.device_types.empty()) return;
  const std::uint64_t heap = facts_.memory_heaps[facts_.memory_types[plan_.device_types.front()].heap].bytes;
  plan_.info.total_memory = heap;
  std::uint64_t largest = heap;
  for (const std::uint64_t limit : {facts_.max_allocation, facts_.max_buffer}) {
    if (limit != 0) largest = std::min(largest, limit);
  }
  plan_.max_block_bytes =
      largest - largest % (64 * kib);  // what a buffer of that size needs must not round up above it
  // A 64th of the heap strands little of a small one; 256 MiB keep the count of allocations on the largest far below the
  // 4,096 that every driver allows.
  plan_.block_bytes = std::clamp(heap / 64 / mib * mib, 1 * mib, 256 * mib);
  plan_.block_bytes = std::min(plan_.block_bytes, plan_.max_block_bytes);
}

void Planner::choose_work() {
  plan_.info.limits.max_tokens_per_launch = tokens_per_launch;
  plan_.submission_groups = facts_.type == VK_PHYSICAL_DEVICE_TYPE_CPU ? 0 : groups_per_submission;
}

DeviceType device_type(VkPhysicalDeviceType type) {
  switch (type) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return DeviceType::discrete;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return DeviceType::integrated;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return DeviceType::cpu;
    default:
      return DeviceType::virtual_gpu;
  }
}

void Planner::describe() {
  DeviceInfo& info = plan_.info;
  info.backend = "vulkan";
  info.name = facts_.name;
  info.vendor = vendor_name(facts_.vendor_id);
  info.type = device_type(facts_.type);
  info.uuid = uuid_text(facts_.device_uuid);
  if (facts_.pci) info.pci_address = pci_text(*facts_.pci);
  info.driver_version = driver_version_text(facts_);
  // SPIR-V versions that every device of a Vulkan version takes.
  info.target = version_ >= VK_API_VERSION_1_3 ? "spv1.6" : version_ >= VK_API_VERSION_1_2 ? "spv1.5" : "spv1.3";
  info.features = facts_.features;
  for (const std::string_view extension :
       {"VK_EXT_memory_budget", "VK_KHR_cooperative_matrix", "VK_KHR_portability_subset", "VK_KHR_shader_bfloat16"}) {
    if (has_extension(facts_, extension)) info.features.emplace_back(extension);
  }
  if (facts_.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || facts_.type == VK_PHYSICAL_DEVICE_TYPE_CPU)
    info.features.emplace_back("unified_memory");
  if (!facts_.denorm_preserve) info.features.emplace_back("denormals_may_flush");
  std::sort(info.features.begin(), info.features.end());
  describe_limits();
}

void Planner::describe_limits() {
  DeviceLimits& limits = plan_.info.limits;
  limits.shared_memory_per_block = facts_.max_shared_memory;
  limits.threads_per_block = facts_.max_invocations;
  limits.block = {facts_.max_group_size[0], facts_.max_group_size[1], facts_.max_group_size[2]};
  limits.grid = {facts_.max_group_count[0], facts_.max_group_count[1], facts_.max_group_count[2]};
  limits.allocation = plan_.max_block_bytes;
  limits.subgroup_min = facts_.subgroup_min;
  limits.subgroup_max = facts_.subgroup_max;
}

void Planner::describe_for_images() {
  DeviceFacts& facts = plan_.facts;
  facts.backend = "vulkan";
  facts.target = plan_.info.target;
  facts.capabilities = {"Matrix", "Shader"};
  for (const Capability& capability : feature_capabilities) {
    if (contains(plan_.features, capability.feature)) facts.capabilities.emplace_back(capability.name);
  }
  for (const SubgroupCapability& capability : subgroup_capabilities) {
    if ((facts_.subgroup_operations & capability.operation) != 0) facts.capabilities.emplace_back(capability.name);
  }
  if (facts_.denorm_preserve) facts.capabilities.emplace_back("DenormPreserve");
  if (facts_.signed_zero_inf_nan_preserve) facts.capabilities.emplace_back("SignedZeroInfNanPreserve");
  if (facts_.rounding_to_nearest_even) facts.capabilities.emplace_back("RoundingModeRTE");
  std::sort(facts.capabilities.begin(), facts.capabilities.end());
  facts.shared_memory_per_block = facts_.max_shared_memory;
  facts.threads_per_block = facts_.max_invocations;
  // Only a size that a pipeline is sure to get. Where the compiler chooses among several (AMD, and Intel, which reports 32
  // and runs 8 or 16) none is promised, and images for any size remain.
  if (facts_.subgroup_range_known && facts_.subgroup_min == facts_.subgroup_max) {
    facts.subgroup_min = facts_.subgroup_min;
    facts.subgroup_max = facts_.subgroup_max;
  }
  facts.argument_bytes = max_argument_bytes;  // beyond the push constants they go through memory
}

void Planner::apply_quirks(std::vector<std::string> quirks) {
  if (contains(quirks, "bounded_submissions")) plan_.submission_groups = groups_per_bounded_submission;
  if (contains(quirks, "no_timestamps")) plan_.timestamps = false;
  if (contains(quirks, "short_launches") || contains(quirks, "loops_end_early"))
    plan_.info.limits.max_tokens_per_launch = tokens_per_short_launch;
  plan_.info.quirks = std::move(quirks);
}

}  // namespace

DevicePlan plan_device(const PhysicalDeviceFacts& facts, const OpenOptions& options,
                       const std::optional<AdoptedDevice>& adopted) {
  return Planner(facts, adopted).plan(options);
}

}  // namespace kdart::vulkan
