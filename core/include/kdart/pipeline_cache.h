// An optional service: what a driver compiled for kernels, to be kept by the caller between runs.
//
//   if (auto* cache = gpu->service<kdart::PipelineCache>()) cache->load(bytes_of_last_time);
//   .. load the kernel set, build the layer ..
//   bytes = cache->save();
//
// Vulkan has it: there drivers compile kernels when a layer is built, which takes seconds. The bytes are the driver's own,
// with a hash behind them, and of use to the same driver, its version and device alone.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "kdart/export.h"

namespace kdart {

class KDART_API PipelineCache {
 public:
  static constexpr std::string_view service_id = "pipeline_cache/1";

  // Takes in what save() gave, in this process or an earlier one; call it before kernels are prepared. False when the
  // bytes are not for this device and driver, or are not whole: nothing is lost, kernels are compiled anew. The driver sees
  // nothing that was changed by accident; but the hash is no signature, so keep the bytes where only you can write. Throws
  // Error. Any thread.
  virtual bool load(std::span<const std::byte> bytes) = 0;
  // Everything compiled or loaded so far. Throws Error. Any thread.
  [[nodiscard]] virtual std::vector<std::byte> save() = 0;

 protected:
  PipelineCache() = default;
  ~PipelineCache() = default;
  PipelineCache(const PipelineCache&) = default;
  PipelineCache& operator=(const PipelineCache&) = default;
};

}  // namespace kdart
