// Mesa's driver for AMD GPUs as a compiler: it makes pipelines for a GPU that is not there, and says what became of them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#ifndef VK_NO_PROTOTYPES
#define VK_NO_PROTOTYPES
#endif
#include <vulkan/vulkan.h>

namespace kdart::test {

// As the driver reports it, of one pipeline.
struct PipelineStatistics {
  std::uint64_t vgprs = 0, sgprs = 0;
  std::uint64_t spilled_vgprs = 0, spilled_sgprs = 0;
  std::uint64_t scratch_bytes = 0;  // per wave
  std::uint64_t lds_bytes = 0;
  std::uint64_t waves = 0;  // that one SIMD holds at once
  std::uint64_t code_bytes = 0;

  friend bool operator==(const PipelineStatistics&, const PipelineStatistics&) = default;
};

// The driver's file in the folders where the Vulkan loader looks. Throws std::runtime_error when there is none.
[[nodiscard]] std::filesystem::path find_radv();

class Radv {
 public:
  // Opens the driver for `family` ("navi21"), one that RADV_FORCE_FAMILY knows. One object at a time, and no other thread
  // beside it: the family goes through the environment. Throws std::runtime_error.
  Radv(const std::filesystem::path& driver, const std::string& family);
  ~Radv();
  Radv(const Radv&) = delete;
  Radv& operator=(const Radv&) = delete;

  [[nodiscard]] const std::string& driver_version() const { return driver_version_; }  // "Mesa 22.3.6"

  // Compiles one entry point. `constants` become the specialization constants 0, 1, 2, ...; 128 bytes of push constants and
  // no descriptors, as the backend has it.
  [[nodiscard]] PipelineStatistics compile(std::span<const std::uint32_t> code, const std::string& entry,
                                           std::span<const std::uint32_t> constants) const;

 private:
  void create_instance();
  void choose_device(const std::string& family);
  void create_device();
  void create_layout();
  void release() noexcept;
  template <class Function>
  [[nodiscard]] Function instance_function(const char* name) const;
  template <class Function>
  [[nodiscard]] Function device_function(const char* name) const;
  [[nodiscard]] VkPipeline make_pipeline(VkShaderModule shader, const std::string& entry,
                                         std::span<const std::uint32_t> constants) const;
  [[nodiscard]] PipelineStatistics statistics_of(VkPipeline pipeline) const;

  PFN_vkGetInstanceProcAddr get_instance_function_ = nullptr;
  PFN_vkGetDeviceProcAddr get_device_function_ = nullptr;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  std::string driver_version_;
};

}  // namespace kdart::test
