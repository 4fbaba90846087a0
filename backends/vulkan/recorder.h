// Operations into a command buffer, each ordered after all before it. Streams and graphs record through it, so the one
// place that emits barriers serves both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/vulkan/memory.h"
#include "kdart/types.h"

namespace kdart::vulkan {

// One side of a copy: a buffer of ours, or just an address (imported memory).
struct CopySide {
  DevicePtr address;
  std::optional<BufferPlace> place;

  [[nodiscard]] CopySide offset(std::uint64_t bytes) const {
    CopySide side{address.offset(bytes), place};
    if (side.place) side.place->offset += bytes;
    return side;
  }
};

// A pipeline and what its launch pushes.
struct Dispatch {
  VkPipeline pipeline = VK_NULL_HANDLE;
  Dim3 grid;
  std::span<const std::byte> arguments;
};

// The device's own kernels, for what Vulkan's commands cannot do or do wrong on some drivers.
struct BytePipelines {
  VkPipeline fill = VK_NULL_HANDLE;
  VkPipeline copy = VK_NULL_HANDLE;          // any bytes
  VkPipeline copy_vectors = VK_NULL_HANDLE;  // multiples of 16; null where vkCmdCopyBuffer is as fast
};

class Recorder {
 public:
  Recorder(const DeviceFunctions& functions, VkPipelineLayout layout, const BytePipelines& pipelines)
      : functions_(&functions), layout_(layout), pipelines_(&pipelines) {}

  // The buffer is empty and not in use. Throws Error.
  void begin(VkCommandBuffer buffer, VkCommandBufferUsageFlags usage);
  // What was written becomes visible to the host. Throws Error.
  void end();
  [[nodiscard]] bool recording() const noexcept { return buffer_ != VK_NULL_HANDLE; }
  [[nodiscard]] std::uint32_t operations() const noexcept { return operations_; }
  [[nodiscard]] std::uint64_t groups() const noexcept { return groups_; }

  void dispatch(const Dispatch& dispatch);
  // From or to host memory. `bytes` > 0; sides inside their buffers.
  void copy(const CopySide& dst, const CopySide& src, std::uint64_t bytes);
  // Within device memory.
  void copy_rows(const CopySide& dst, std::uint64_t dst_pitch, const CopySide& src, std::uint64_t src_pitch,
                 std::uint64_t width, std::uint64_t height);
  void fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count);
  // The time at which everything before has ended.
  void timestamp(VkQueryPool pool, std::uint32_t query);

 private:
  // Begins an operation: everything before it, in this buffer and in earlier submissions to the queue, comes first.
  void order();
  void bind(VkPipeline pipeline);
  void copy_by_kernel(VkPipeline pipeline, std::uint64_t per_group, const CopySide& dst, std::uint64_t dst_pitch,
                      const CopySide& src, std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height);
  void copy_by_command(const CopySide& dst, std::uint64_t dst_pitch, const CopySide& src, std::uint64_t src_pitch,
                       std::uint64_t width, std::uint64_t height);

  const DeviceFunctions* functions_;
  VkPipelineLayout layout_;
  const BytePipelines* pipelines_;
  VkCommandBuffer buffer_ = VK_NULL_HANDLE;
  VkPipeline bound_ = VK_NULL_HANDLE;
  std::uint32_t operations_ = 0;
  std::uint64_t groups_ = 0;
};

}  // namespace kdart::vulkan
