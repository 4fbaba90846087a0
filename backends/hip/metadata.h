// The note in which the compiler describes a code object's kernels: a MessagePack document.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/elf.h"
#include "backends/hip/code_object.h"

namespace kdart::hip {

struct Metadata {
  std::string target;  // "gfx90a:sramecc+:xnack-"
  std::vector<CodeObjectKernel> kernels;
};

// Refuses what is not a strict document of bounded size and depth, what lacks a field, and numbers that contradict.
[[nodiscard]] Metadata read_metadata(const common::Image& image, std::span<const std::byte> note);

// "gfx90a" of "amdgcn-amd-amdhsa--gfx90a"; nothing for another triple.
[[nodiscard]] std::optional<std::string_view> target_of_triple(std::string_view triple);

}  // namespace kdart::hip
