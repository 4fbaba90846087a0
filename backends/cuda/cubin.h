// What a cubin says of itself. It is an ELF file; cuModuleLoadData takes no length and believes what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kdart::cuda {

struct CubinArgument {
  std::uint32_t offset = 0, size = 0;
};

struct CubinKernel {
  std::string symbol;
  std::uint32_t static_shared_bytes = 0;
  // In order, from the attribute list of section .nv.info.<symbol>.
  std::vector<CubinArgument> arguments;
};

struct Cubin {
  std::uint32_t capability = 0;  // 90 for sm_90
  std::vector<CubinKernel> kernels;
  [[nodiscard]] const CubinKernel* find(std::string_view symbol) const noexcept;
};

// Reads an untrusted image: ELF header, section headers, names, symbols and kernel attributes all lie within the bytes.
// Pure. Throws Error(invalid_image) that names `file` and what is wrong.
[[nodiscard]] Cubin read_cubin(std::span<const std::byte> bytes, std::string_view file);

// Throws Error(invalid_image) unless the bytes are PTX text: `.version` and `.target` directives first, no NUL within.
void check_ptx(std::span<const std::byte> bytes, std::string_view file);

}  // namespace kdart::cuda
