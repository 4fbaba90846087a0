// Whether bytes are a shared object that the system's loader can be shown.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kdart::cpu {

// Checks the ELF header, the program headers, the section headers and the dynamic table of an untrusted image for this
// machine, since dlopen believes what it reads: every table and segment lies within the bytes, and the addresses that
// the dynamic table names within the segments. Pure. Throws Error(invalid_image) that names `file` and what is wrong.
void check_image(std::span<const std::byte> bytes, std::string_view file);

}  // namespace kdart::cpu
