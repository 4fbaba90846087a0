#include "backends/vulkan/kernels.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/vulkan/errors.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "core/runtime/sha256.h"

namespace kdart::vulkan {
namespace {

// Made of shaders/*.comp by the build.
constexpr std::uint32_t fill_bytes_code[] = {
#include "backends/vulkan/fill_bytes.inc"
};
constexpr std::uint32_t copy_bytes_code[] = {
#include "backends/vulkan/copy_bytes.inc"
};
constexpr std::uint32_t copy_vectors_code[] = {
#include "backends/vulkan/copy_vectors.inc"
};

std::uint32_t shared_words(std::uint32_t shared_bytes) {
  return std::max<std::uint32_t>(1, shared_bytes / 4 + (shared_bytes % 4 != 0 ? 1 : 0));
}

VkShaderModule make_shader(const LogicalDevice& device, std::span<const std::uint32_t> words) {
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = words.size_bytes();
  info.pCode = words.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  check_vk(device.fn().vkCreateShaderModule(device.get(), &info, nullptr, &shader), "creating a shader module");
  return shader;
}

VkPipeline make_pipeline(const LogicalDevice& device, VkPipelineCache cache, VkShaderModule shader, const char* entry,
                         const VkSpecializationInfo* constants) {
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = entry;
  info.stage.pSpecializationInfo = constants;
  info.layout = device.pipeline_layout();
  VkPipeline pipeline = VK_NULL_HANDLE;
  check_vk(device.fn().vkCreateComputePipelines(device.get(), cache, 1, &info, nullptr, &pipeline),
           detail::format("compiling kernel '{}'", entry));
  return pipeline;
}

VkPipeline make_byte_pipeline(const LogicalDevice& device, VkPipelineCache cache, std::span<const std::uint32_t> code) {
  const VkShaderModule shader = make_shader(device, code);
  try {
    const VkPipeline pipeline = make_pipeline(device, cache, shader, "main", nullptr);
    device.fn().vkDestroyShaderModule(device.get(), shader, nullptr);
    return pipeline;
  } catch (...) {
    device.fn().vkDestroyShaderModule(device.get(), shader, nullptr);
    throw;
  }
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// A manifest states an image's needs, and selection goes by it; the image itself decides what the driver meets.
void check_needs(const SpirvModule& code, const ManifestImage& image, const DeviceFacts& facts) {
  for (const std::string& capability : code.capabilities) {
    if (contains(facts.capabilities, capability)) continue;
    detail::fail(ErrorCode::invalid_image, "image '{}' needs the capability {}, which the device lacks{}", image.file,
                 capability, contains(image.capabilities, capability) ? "" : " and its manifest does not state");
  }
  const std::string version = detail::format("spv{}.{}", code.major, code.minor);
  if (facts.target < version) {
    detail::fail(ErrorCode::invalid_image, "image '{}' is SPIR-V {}.{}, newer than the device's {}", image.file,
                 code.major, code.minor, facts.target);
  }
}

}  // namespace

BytePipelines make_byte_pipelines(const LogicalDevice& device, VkPipelineCache cache) {
  BytePipelines pipelines;
  try {
    pipelines.fill = make_byte_pipeline(device, cache, fill_bytes_code);
    pipelines.copy = make_byte_pipeline(device, cache, copy_bytes_code);
    // On a CPU the command is a memcpy.
    if (device.facts().type != VK_PHYSICAL_DEVICE_TYPE_CPU) {
      pipelines.copy_vectors = make_byte_pipeline(device, cache, copy_vectors_code);
    }
  } catch (...) {
    destroy_byte_pipelines(device, pipelines);
    throw;
  }
  return pipelines;
}

void destroy_byte_pipelines(const LogicalDevice& device, const BytePipelines& pipelines) noexcept {
  for (const VkPipeline pipeline : {pipelines.fill, pipelines.copy, pipelines.copy_vectors}) {
    if (pipeline != VK_NULL_HANDLE) device.fn().vkDestroyPipeline(device.get(), pipeline, nullptr);
  }
}

// --- the driver's cache -----------------------------------------------------------------------------------------------

DriverCache::DriverCache(const LogicalDevice& device) : device_(&device) {
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  check_vk(device.fn().vkCreatePipelineCache(device.get(), &info, nullptr, &cache_), "creating the pipeline cache");
}

DriverCache::~DriverCache() {
  device_->fn().vkDestroyPipelineCache(device_->get(), cache_, nullptr);
}

// A hash of what the driver gave stands behind it. The driver checks the header too, but some trust the rest of the bytes
// when it fits.
bool DriverCache::load(std::span<const std::byte> bytes) {
  VkPipelineCacheHeaderVersionOne header{};
  if (bytes.size() < sizeof header + sizeof(detail::Sha256Digest)) return false;
  const detail::Sha256Digest digest = detail::sha256(bytes.first(bytes.size() - sizeof digest));
  if (std::memcmp(digest.data(), bytes.last(sizeof digest).data(), sizeof digest) != 0) return false;
  bytes = bytes.first(bytes.size() - sizeof digest);
  std::memcpy(&header, bytes.data(), sizeof header);
  const PhysicalDeviceFacts& facts = device_->facts();
  if (header.headerSize != sizeof header || header.headerVersion != VK_PIPELINE_CACHE_HEADER_VERSION_ONE ||
      header.vendorID != facts.vendor_id || header.deviceID != facts.device_id ||
      !std::equal(facts.cache_uuid.begin(), facts.cache_uuid.end(), std::begin(header.pipelineCacheUUID))) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = bytes.size();
  info.pInitialData = bytes.data();
  VkPipelineCache loaded = VK_NULL_HANDLE;
  check_vk(device_->fn().vkCreatePipelineCache(device_->get(), &info, nullptr, &loaded), "loading a pipeline cache");
  const VkResult result = device_->fn().vkMergePipelineCaches(device_->get(), cache_, 1, &loaded);
  device_->fn().vkDestroyPipelineCache(device_->get(), loaded, nullptr);
  check_vk(result, "merging a pipeline cache");
  return true;
}

std::vector<std::byte> DriverCache::save() {
  const std::lock_guard lock(mutex_);
  std::vector<std::byte> bytes;
  // It may grow between the two calls.
  for (;;) {
    std::size_t size = 0;
    check_vk(device_->fn().vkGetPipelineCacheData(device_->get(), cache_, &size, nullptr), "saving the pipeline cache");
    bytes.resize(size);
    const VkResult result = device_->fn().vkGetPipelineCacheData(device_->get(), cache_, &size, bytes.data());
    if (result == VK_INCOMPLETE) continue;
    check_vk(result, "saving the pipeline cache");
    bytes.resize(size);
    const detail::Sha256Digest digest = detail::sha256(bytes);
    const auto hash = std::as_bytes(std::span(digest));
    bytes.insert(bytes.end(), hash.begin(), hash.end());
    return bytes;
  }
}

// --- kernels ----------------------------------------------------------------------------------------------------------

VulkanKernel::VulkanKernel(VulkanModule& module, std::string name, VkShaderModule shader, const SpirvModule& code,
                           const SpirvEntry& entry)
    : module_(&module),
      name_(std::move(name)),
      shader_(shader),
      fixed_block_(entry.block),
      static_shared_bytes_(code.static_shared_bytes),
      by_address_(code.by_address),
      arguments_(code.arguments) {}

VkPipeline VulkanKernel::find(Dim3 block, std::uint32_t shared_bytes) const noexcept {
  const std::uint32_t words = shared_words(shared_bytes);
  for (const Variant* variant = variants_.load(std::memory_order_acquire); variant != nullptr;
       variant = variant->next) {
    if (variant->block == block && variant->shared_words == words) return variant->pipeline;
  }
  return VK_NULL_HANDLE;
}

VkPipeline VulkanKernel::prepare(Dim3 block, std::uint32_t shared_bytes) {
  const std::lock_guard lock(mutex_);
  if (const VkPipeline pipeline = find(block, shared_bytes)) return pipeline;
  if (fixed_block_ && (*fixed_block_)[0] != 0 && *fixed_block_ != std::array{block.x, block.y, block.z}) {
    detail::fail(ErrorCode::invalid_launch, "kernel '{}': its module is for blocks of {} x {} x {}, {} x {} x {} given",
                 name_, (*fixed_block_)[0], (*fixed_block_)[1], (*fixed_block_)[2], block.x, block.y, block.z);
  }
  const std::array<std::uint32_t, 4> values{block.x, block.y, block.z, shared_words(shared_bytes)};
  std::array<VkSpecializationMapEntry, 4> entries{};
  for (std::uint32_t i = 0; i < 4; ++i) {
    entries[i] = {i < 3 ? block_constants[i] : shared_words_constant, i * 4, sizeof(std::uint32_t)};
  }
  const VkSpecializationInfo constants{entries.size(), entries.data(), sizeof values, values.data()};
  auto variant = std::make_unique<Variant>();
  variant->block = block;
  variant->shared_words = values[3];
  owned_.reserve(owned_.size() + 1);
  const VkPipeline pipeline =
      make_pipeline(module_->device(), module_->cache().get(), shader_, name_.c_str(), &constants);
  variant->pipeline = pipeline;
  variant->next = variants_.load(std::memory_order_relaxed);
  variants_.store(variant.get(), std::memory_order_release);
  owned_.push_back(std::move(variant));
  return pipeline;
}

VulkanModule::VulkanModule(const LogicalDevice& device, DriverCache& cache, const ManifestImage& image,
                           std::span<const std::byte> bytes)
    : device_(&device), cache_(&cache) {
  if (bytes.size() % 4 != 0) {
    detail::fail(ErrorCode::invalid_image, "image '{}' has {} bytes, and SPIR-V comes in words of 4", image.file,
                 bytes.size());
  }
  std::vector<std::uint32_t> words(bytes.size() / 4);
  if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
  const std::vector<SpirvModule> modules = parse_spirv(words, image.file);
  for (const SpirvModule& code : modules) check_needs(code, image, device.plan().facts);
  try {
    for (const SpirvModule& code : modules) {
      shaders_.reserve(shaders_.size() + 1);
      shaders_.push_back(make_shader(device, code.words));
      for (const SpirvEntry& entry : code.entries) {
        if (find(entry.name) != nullptr) {
          detail::fail(ErrorCode::invalid_image, "image '{}' has two entry points {}", image.file,
                       detail::quote(entry.name));
        }
        kernels_.push_back(std::make_unique<VulkanKernel>(*this, entry.name, shaders_.back(), code, entry));
      }
    }
  } catch (...) {
    release();
    throw;
  }
}

VulkanModule::~VulkanModule() {
  release();
}

void VulkanModule::release() noexcept {
  for (const auto& kernel : kernels_) {
    for (const auto& variant : kernel->owned_) {
      device_->fn().vkDestroyPipeline(device_->get(), variant->pipeline, nullptr);
    }
  }
  for (const VkShaderModule shader : shaders_) device_->fn().vkDestroyShaderModule(device_->get(), shader, nullptr);
}

VulkanKernel* VulkanModule::find(std::string_view symbol) const noexcept {
  for (const auto& kernel : kernels_) {
    if (kernel->name() == symbol) return kernel.get();
  }
  return nullptr;
}

}  // namespace kdart::vulkan
