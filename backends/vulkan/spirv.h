// Reading SPIR-V: what an image says of itself, before a driver sees it. Drivers take well-formed modules for granted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kdart::vulkan {

// Specialization constants of a kernel, by id.
inline constexpr std::array<std::uint32_t, 3> block_constants{0, 1, 2};  // the block's dimensions
inline constexpr std::uint32_t shared_words_constant = 3;  // dynamic shared memory in 4-byte words, at least 1

struct SpirvArgument {
  std::uint32_t offset = 0, size = 0;
};

// One entry point for compute.
struct SpirvEntry {
  std::string name;
  // Fixed by the module; nothing when the block is made of specialization constants.
  std::optional<std::array<std::uint32_t, 3>> block;
};

struct SpirvModule {
  std::span<const std::uint32_t> words;
  std::uint32_t major = 0, minor = 0;  // the SPIR-V version
  std::vector<std::string> capabilities;
  std::vector<SpirvEntry> entries;
  std::uint32_t static_shared_bytes = 0;  // of variables whose size no specialization constant sets
  // The argument block: the push constants, or what their only member, an address, points to.
  bool by_address = false;
  std::vector<SpirvArgument> arguments;
};

// The modules of an image: one or more, one after the other. Refers to `words`. Checks the structure: the header, every
// instruction's length, ids below the bound where they are declared, entry points, functions that end. Throws
// Error(invalid_image) naming `file`, the word and what is wrong there.
[[nodiscard]] std::vector<SpirvModule> parse_spirv(std::span<const std::uint32_t> words, std::string_view file);

// "Int64"; the number in words for one that this build does not know.
[[nodiscard]] std::string capability_name(std::uint32_t capability);

}  // namespace kdart::vulkan
