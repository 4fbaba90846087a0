// Which pipelines a layer makes of a kernel set: asked of the layer itself, over a device that only listens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kdart/kernel_set.h"
#include "kdart/types.h"

namespace kdart::test {

struct PipelineShape {
  std::string kernel;
  std::string symbol;
  Dim3 block;
  std::uint32_t shared_bytes = 0;

  friend bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

// Every (kernel, block, shared memory) that layers with heads of 128 and of 64 and chunks of 16 prepare, each once, kernel by
// kernel in the contract's order. `set` is for Vulkan.
[[nodiscard]] std::vector<PipelineShape> layer_pipelines(const std::shared_ptr<const KernelSet>& set);

}  // namespace kdart::test
