// What a cubin says of itself. It is an ELF file; cuModuleLoadData takes no length and believes what it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/argument.h"

namespace kdart::cuda {

using CubinArgument = common::KernelArgument;

struct CubinKernel {
  std::string symbol;
  std::vector<CubinArgument> arguments;  // in order
};

struct Cubin {
  std::uint32_t capability = 0;  // 90 for sm_90; 0 in a layout that this build does not know
  std::vector<CubinKernel> kernels;
  [[nodiscard]] const CubinKernel* find(std::string_view symbol) const noexcept;
};

// Reads an untrusted image: header, section headers, sections, symbols, names and the kernels' attributes all lie within the
// bytes.
// Pure. Throws Error(invalid_image) that names `file` and what is wrong.
[[nodiscard]] Cubin read_cubin(std::span<const std::byte> bytes, std::string_view file);

// Throws Error(invalid_image) unless the bytes are PTX text: its `.version` and `.target` stand there, and no NUL does.
void check_ptx(std::span<const std::byte> bytes, std::string_view file);

}  // namespace kdart::cuda
