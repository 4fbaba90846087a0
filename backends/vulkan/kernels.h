// Loaded images, their kernels, and the pipelines made of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/vulkan/logical_device.h"
#include "backends/vulkan/recorder.h"
#include "backends/vulkan/spirv.h"
#include "kdart/kernel_set.h"
#include "kdart/pipeline_cache.h"

namespace kdart::vulkan {

// What the driver compiled, kept between runs by the caller. Any thread.
class DriverCache final : public PipelineCache {
 public:
  explicit DriverCache(const LogicalDevice& device);
  ~DriverCache();
  DriverCache(const DriverCache&) = delete;
  DriverCache& operator=(const DriverCache&) = delete;

  bool load(std::span<const std::byte> bytes) override;
  [[nodiscard]] std::vector<std::byte> save() override;
  [[nodiscard]] VkPipelineCache get() const noexcept { return cache_; }

 private:
  const LogicalDevice* device_;
  std::mutex mutex_;  // of load and save; the driver guards what pipelines do
  VkPipelineCache cache_ = VK_NULL_HANDLE;
};

class VulkanModule;

// One kernel of a loaded image and a pipeline for each (block, shared memory) it was prepared for. Any thread.
class VulkanKernel {
 public:
  VulkanKernel(VulkanModule& module, std::string name, VkShaderModule shader, const SpirvModule& code,
               const SpirvEntry& entry);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] VulkanModule& module() const noexcept { return *module_; }
  [[nodiscard]] bool by_address() const noexcept { return by_address_; }
  [[nodiscard]] std::uint32_t static_shared_bytes() const noexcept { return static_shared_bytes_; }
  [[nodiscard]] const std::vector<SpirvArgument>& arguments() const noexcept { return arguments_; }

  // The pipeline, or null when it was not prepared. No lock.
  [[nodiscard]] VkPipeline find(Dim3 block, std::uint32_t shared_bytes) const noexcept;
  // The same, compiled when need be. Throws Error: invalid_launch for a block that the module does not allow.
  VkPipeline prepare(Dim3 block, std::uint32_t shared_bytes);

 private:
  friend class VulkanModule;
  struct Variant {
    Dim3 block;
    std::uint32_t shared_words;
    VkPipeline pipeline;
    const Variant* next;
  };

  VulkanModule* module_;
  std::string name_;
  VkShaderModule shader_;
  std::optional<std::array<std::uint32_t, 3>> fixed_block_;
  std::uint32_t static_shared_bytes_;
  bool by_address_;
  std::vector<SpirvArgument> arguments_;
  std::mutex mutex_;  // one compilation at a time
  std::vector<std::unique_ptr<const Variant>> owned_;
  std::atomic<const Variant*> variants_{nullptr};  // a list that only grows
};

// A loaded image. Shared: by the backend until it is unloaded, and by graphs that hold launches of it.
class VulkanModule : public std::enable_shared_from_this<VulkanModule> {
 public:
  // Throws Error: invalid_image (spirv.h; a capability that the manifest does not state or the device lacks; a newer
  // SPIR-V than the device takes).
  VulkanModule(const LogicalDevice& device, DriverCache& cache, const ManifestImage& image,
               std::span<const std::byte> bytes);
  ~VulkanModule();
  VulkanModule(const VulkanModule&) = delete;
  VulkanModule& operator=(const VulkanModule&) = delete;

  // Null when the image has no kernel of this symbol.
  [[nodiscard]] VulkanKernel* find(std::string_view symbol) const noexcept;
  [[nodiscard]] const LogicalDevice& device() const noexcept { return *device_; }
  [[nodiscard]] DriverCache& cache() const noexcept { return *cache_; }

 private:
  void release() noexcept;

  const LogicalDevice* device_;
  DriverCache* cache_;
  std::vector<VkShaderModule> shaders_;
  std::vector<std::unique_ptr<VulkanKernel>> kernels_;
};

// The device's own kernels (shaders/), made when it is opened. Destroyed with `functions` by the owner.
[[nodiscard]] BytePipelines make_byte_pipelines(const LogicalDevice& device, VkPipelineCache cache);
void destroy_byte_pipelines(const LogicalDevice& device, const BytePipelines& pipelines) noexcept;

}  // namespace kdart::vulkan
