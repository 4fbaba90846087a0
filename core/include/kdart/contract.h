// What a kernel expects, as data. The tables are generated from kernels/contract/*.json, the only place that states it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "kdart/types.h"

namespace kdart {

inline constexpr std::size_t max_kernel_arguments = 32;
inline constexpr std::size_t max_argument_bytes = 256;

enum class ArgKind : std::uint8_t { ptr, u32, i32, u64, f32, bytes };
[[nodiscard]] constexpr std::string_view to_string(ArgKind kind) noexcept {
  constexpr std::string_view names[] = {"ptr", "u32", "i32", "u64", "f32", "bytes"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(names) ? names[index] : "unknown";
}
enum class ArgAccess : std::uint8_t { none, in, out, inout };  // none for scalars

// One argument of the block: natural alignment, in order.
struct ContractArg {
  std::string_view name;
  ArgKind kind;
  std::uint16_t offset;  // in the argument block
  std::uint16_t size;
  std::string_view element;  // ptr: "bf16", "f32", "u32"; else ""
  ArgAccess access;
  bool nullable;
  std::uint32_t alignment;  // ptr: bytes that the address must be a multiple of; else 0
  std::string_view extent;  // ptr: elements, as an expression over the scalars; else ""
};

// Grid, block and dynamic shared memory that the contract's formulas give for one argument block.
struct LaunchShape {
  Dim3 grid;
  Dim3 block;
  std::uint32_t shared_bytes = 0;
};

struct ContractKernel {
  std::string_view name;
  bool required;
  bool barriers;  // the kernel synchronises its block
  std::span<const ContractArg> args;
  std::uint16_t argument_bytes;  // the block's size, its tail not padded
  std::string_view summary;
  LaunchShape (*shape)(const std::byte* arguments);                      // the formulas, evaluated
  void (*extents)(const std::byte* arguments, std::uint64_t* elements);  // one entry per argument; 0 for scalars
};

struct Contract {
  std::string_view set;  // "kda"
  std::uint32_t version;
  std::span<const ContractKernel> kernels;

  [[nodiscard]] constexpr const ContractKernel* find(std::string_view name) const noexcept {
    for (const ContractKernel& kernel : kernels) {
      if (kernel.name == name) return &kernel;
    }
    return nullptr;
  }
};

}  // namespace kdart
