// Loaded images and their kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cpu/loader.h"
#include "kernels/simt/cpu_abi.h"

namespace kdart::cpu {

class CpuModule;

// One kernel of a loaded image. Immutable; lives as long as its module.
class CpuKernel {
 public:
  CpuKernel(const CpuModule& module, const kdart_cpu_kernel& table)
      : module_(&module), table_(table), name_(table.name) {}

  [[nodiscard]] const CpuModule& module() const noexcept { return *module_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] bool barriers() const noexcept { return table_.barriers != 0; }
  [[nodiscard]] kdart_cpu_entry thread_entry() const noexcept { return table_.thread_entry; }
  [[nodiscard]] kdart_cpu_entry block_entry() const noexcept { return table_.block_entry; }
  [[nodiscard]] std::uint32_t static_shared_bytes() const noexcept { return table_.static_shared_bytes; }
  [[nodiscard]] std::span<const std::uint32_t> argument_offsets() const noexcept {
    return {table_.argument_offsets, table_.argument_count};
  }
  [[nodiscard]] std::span<const std::uint32_t> argument_sizes() const noexcept {
    return {table_.argument_sizes, table_.argument_count};
  }

 private:
  const CpuModule* module_;
  kdart_cpu_kernel table_;
  std::string name_;
};

// A loaded image. Shared: by the backend until it is unloaded, and by graphs that hold launches of it.
class CpuModule : public std::enable_shared_from_this<CpuModule> {
 public:
  // Throws Error: invalid_image for bytes that are no image of ours (image_check.h, a missing or malformed kernel table,
  // another ABI version), io_error (loader.h).
  CpuModule(std::span<const std::byte> bytes, std::string_view file);
  CpuModule(const CpuModule&) = delete;
  CpuModule& operator=(const CpuModule&) = delete;

  [[nodiscard]] const std::string& file() const noexcept { return file_; }
  // Null when the image has no kernel of this symbol.
  [[nodiscard]] const CpuKernel* find(std::string_view symbol) const noexcept;

 private:
  std::string file_;
  SharedObject object_;
  std::vector<CpuKernel> kernels_;  // never resized once built: launches point into it
};

}  // namespace kdart::cpu
