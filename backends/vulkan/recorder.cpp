#include "backends/vulkan/recorder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/vulkan/errors.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint64_t max_groups = 65535;             // on any axis, of any device
constexpr std::uint64_t bytes_per_group = 256;          // shaders/words.glsl: 64 threads, a word each
constexpr std::uint64_t vector_bytes_per_group = 4096;  // shaders/copy_vectors.comp: 256 threads, 16 bytes each
constexpr std::size_t rows_per_command = 1024;

void memory_barrier(const DeviceFunctions& functions, VkCommandBuffer buffer, VkPipelineStageFlags to,
                    VkAccessFlags access) {
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = access;
  functions.vkCmdPipelineBarrier(buffer, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, to, 0, 1, &barrier, 0, nullptr, 0,
                                 nullptr);
}

// The push constants of shaders/fill_bytes.comp, and of shaders/copy_bytes.comp and shaders/copy_vectors.comp.
struct FillArguments {
  std::uint64_t dst, bytes;
  std::uint32_t pattern, padding;
};
struct CopyArguments {
  std::uint64_t dst, src, dst_pitch, src_pitch, width, height;
};

std::uint32_t groups_for(std::uint64_t bytes, std::uint64_t per_group) {
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(bytes / per_group + 1, 1, max_groups));
}

}  // namespace

void Recorder::begin(VkCommandBuffer buffer, VkCommandBufferUsageFlags usage) {
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = usage;
  check_vk(functions_->vkBeginCommandBuffer(buffer, &info), "beginning a command buffer");
  buffer_ = buffer;
  bound_ = VK_NULL_HANDLE;
  operations_ = 0;
  groups_ = 0;
}

void Recorder::end() {
  memory_barrier(*functions_, buffer_, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
  const VkCommandBuffer buffer = std::exchange(buffer_, VK_NULL_HANDLE);
  check_vk(functions_->vkEndCommandBuffer(buffer), "ending a command buffer");
}

void Recorder::order() {
  memory_barrier(*functions_, buffer_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                 VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
  ++operations_;
}

void Recorder::bind(VkPipeline pipeline) {
  if (pipeline == bound_) return;
  functions_->vkCmdBindPipeline(buffer_, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  bound_ = pipeline;
}

void Recorder::dispatch(const Dispatch& dispatch) {
  order();
  bind(dispatch.pipeline);
  if (!dispatch.arguments.empty()) {
    functions_->vkCmdPushConstants(buffer_, layout_, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                   static_cast<std::uint32_t>(dispatch.arguments.size()), dispatch.arguments.data());
  }
  functions_->vkCmdDispatch(buffer_, dispatch.grid.x, dispatch.grid.y, dispatch.grid.z);
  groups_ += dispatch.grid.threads();
}

void Recorder::copy(const CopySide& dst, const CopySide& src, std::uint64_t bytes) {
  if (dst.place && src.place) {
    copy_by_command(dst, bytes, src, bytes, bytes, 1);
  } else {
    copy_by_kernel(pipelines_->copy, bytes_per_group, dst, bytes, src, bytes, bytes, 1);
  }
}

void Recorder::copy_rows(const CopySide& dst, std::uint64_t dst_pitch, const CopySide& src, std::uint64_t src_pitch,
                         std::uint64_t width, std::uint64_t height) {
  const std::uint64_t all = dst.address.address() | src.address.address() | dst_pitch | src_pitch | width;
  if (pipelines_->copy_vectors != VK_NULL_HANDLE && all % 16 == 0) {
    copy_by_kernel(pipelines_->copy_vectors, vector_bytes_per_group, dst, dst_pitch, src, src_pitch, width, height);
  } else if (dst.place && src.place) {
    copy_by_command(dst, dst_pitch, src, src_pitch, width, height);
  } else {
    copy_by_kernel(pipelines_->copy, bytes_per_group, dst, dst_pitch, src, src_pitch, width, height);
  }
}

void Recorder::copy_by_kernel(VkPipeline pipeline, std::uint64_t per_group, const CopySide& dst,
                              std::uint64_t dst_pitch, const CopySide& src, std::uint64_t src_pitch,
                              std::uint64_t width, std::uint64_t height) {
  const CopyArguments arguments{dst.address.address(), src.address.address(), dst_pitch, src_pitch, width, height};
  const auto rows = static_cast<std::uint32_t>(std::min(height, max_groups));
  dispatch({pipeline, {groups_for(width, per_group), rows, 1}, std::as_bytes(std::span(&arguments, 1))});
}

void Recorder::copy_by_command(const CopySide& dst, std::uint64_t dst_pitch, const CopySide& src,
                               std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height) {
  order();
  std::array<VkBufferCopy, rows_per_command> regions;
  for (std::uint64_t row = 0; row < height;) {
    std::uint32_t count = 0;
    for (; count < rows_per_command && row < height; ++row, ++count) {
      regions[count] = {src.place->offset + row * src_pitch, dst.place->offset + row * dst_pitch, width};
    }
    functions_->vkCmdCopyBuffer(buffer_, src.place->buffer, dst.place->buffer, count, regions.data());
  }
}

void Recorder::fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count) {
  std::uint32_t pattern = value;
  if (width == 1) pattern = (value & 0xFFU) * 0x01010101U;
  if (width == 2) pattern = (value & 0xFFFFU) * 0x00010001U;
  const FillArguments arguments{dst.address(), count * width, pattern, 0};
  dispatch(
      {pipelines_->fill, {groups_for(count * width, bytes_per_group), 1, 1}, std::as_bytes(std::span(&arguments, 1))});
}

void Recorder::timestamp(VkQueryPool pool, std::uint32_t query) {
  order();
  functions_->vkCmdResetQueryPool(buffer_, pool, query, 1);
  functions_->vkCmdWriteTimestamp(buffer_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, query);
}

}  // namespace kdart::vulkan
