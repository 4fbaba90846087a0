// Modules and their kernels.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cuda/api.h"
#include "backends/cuda/context.h"
#include "backends/cuda/cubin.h"
#include "backends/cuda/facts.h"
#include "backends/cuda/launched.h"
#include "kdart/kernel_set.h"

namespace kdart::cuda {

class CudaModule;

// What a kernel may have in dynamic shared memory without asking, its static share counted in.
constexpr std::uint32_t shared_without_optin = 48U << 10;

class CudaKernel {
 public:
  CudaKernel(CudaModule& module, CUfunction function, const std::string* name);

  [[nodiscard]] CUfunction function() const noexcept { return function_; }
  [[nodiscard]] const std::string* name() const noexcept { return name_; }
  [[nodiscard]] CudaModule& module() const noexcept { return *module_; }
  [[nodiscard]] std::uint32_t static_shared_bytes() const noexcept { return static_shared_; }
  [[nodiscard]] std::uint32_t max_threads() const noexcept { return max_threads_; }

  // Lets launches have so much dynamic shared memory, from now on; never less than before. A driver call only when the
  // mark rises. Any thread. Throws what check_cuda throws.
  void allow_shared(std::uint32_t dynamic_bytes) {
    if (dynamic_bytes > allowed_.load(std::memory_order_acquire)) [[unlikely]]
      raise_shared(dynamic_bytes);
  }

 private:
  void raise_shared(std::uint32_t dynamic_bytes);

  CudaModule* module_;
  CUfunction function_;
  const std::string* name_;
  std::uint32_t static_shared_ = 0;
  std::uint32_t max_threads_ = 0;
  std::mutex mutex_;                       // of raising
  std::atomic<std::uint32_t> allowed_{0};  // dynamic bytes
};

// One image on one device. The context must be current in every call that says so.
class CudaModule : public std::enable_shared_from_this<CudaModule> {
 public:
  // Loads a cubin or PTX after a look at its bytes (cubin.h). Current. Throws Error: corrupt_image, invalid_image,
  // no_matching_image (the driver refuses it for this GPU), driver_too_old, what check_cuda throws.
  CudaModule(const Context& context, const CudaSnapshot& device, Names& names, const ManifestImage& image,
             std::span<const std::byte> bytes);
  ~CudaModule();  // unloads
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  [[nodiscard]] const Context& context() const noexcept { return *context_; }
  // The kernel with this symbol, looked up once. Current. Throws Error(corrupt_image) when the image has none.
  [[nodiscard]] CudaKernel& get(const std::string& name, const std::string& symbol);
  // The arguments as the image states them, or else the driver; empty where neither does. Current.
  [[nodiscard]] std::vector<CubinArgument> arguments(const CudaKernel& kernel, const std::string& symbol) const;

 private:
  const Context* context_;
  Names* names_;
  std::string file_;
  std::unordered_map<std::string, std::vector<CubinArgument>> stated_;  // by symbol
  CUmodule module_ = nullptr;
  std::mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<CudaKernel>> kernels_;  // by symbol
};

}  // namespace kdart::cuda
