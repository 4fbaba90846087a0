// What an AMD image says of itself. HIP aborts the process on an image for another GPU and on one that it cannot read,
// so nothing gets to it that these functions have not passed.
//
// All are pure, over bytes that nobody vouches for. Each throws Error(invalid_image), which names `file` and what is
// wrong, and where it is said, Error(no_matching_image).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/argument.h"

namespace kdart::hip {

using CodeObjectArgument = common::KernelArgument;

// Each number is what the compiler's metadata states; the kernel's descriptor agrees.
struct CodeObjectKernel {
  std::string symbol;                         // what a module is asked for; its descriptor is `symbol`.kd
  std::vector<CodeObjectArgument> arguments;  // the explicit ones, in order
  std::uint32_t kernarg_bytes = 0;            // of explicit and hidden arguments
  std::uint32_t static_shared_bytes = 0;
  std::uint32_t max_threads = 0;  // per block
  std::uint32_t wave_size = 0;    // 32 or 64
  std::uint32_t vgprs = 0, sgprs = 0, vgpr_spills = 0, sgpr_spills = 0;
  std::uint32_t scratch_bytes = 0;  // per thread
};

struct CodeObject {
  std::string target;         // "gfx90a:sramecc+:xnack-": a feature only where the code needs it on or off
  std::uint32_t version = 0;  // of the format: 4, 5 or 6
  std::vector<CodeObjectKernel> kernels;
  [[nodiscard]] const CodeObjectKernel* find(std::string_view symbol) const noexcept;
};

// Reads one code object, no bundle: ELF structure, target, loaded segments, relocations, metadata, and each kernel's
// descriptor and entry.
[[nodiscard]] CodeObject read_code_object(std::span<const std::byte> bytes, std::string_view file);

// Throws Error(no_matching_image) when the device cannot run the code.
void check_target(const CodeObject& object, std::string_view device_target, std::string_view file);

struct BundleEntry {
  std::string_view target;  // "gfx90a:xnack-", in the bundle's bytes
  std::span<const std::byte> bytes;
};

// The code objects for AMD GPUs in one of clang's offload bundles, in order. Host code and code for others is left out.
[[nodiscard]] std::vector<BundleEntry> read_bundle(std::span<const std::byte> bytes, std::string_view file);

// A code object itself; of a bundle, the one that suits the device best. Its content is not looked at.
// Throws Error(no_matching_image), which lists what is there, when none suits.
[[nodiscard]] std::span<const std::byte> find_code_object(std::span<const std::byte> bytes,
                                                          std::string_view device_target, std::string_view file);

}  // namespace kdart::hip
