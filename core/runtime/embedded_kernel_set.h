// The form in which a kernel set is embedded in the library: what cmake/KernelSet.cmake generates.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kdart::detail {

// One file of an embedded set, as read-only data of the library. `name` is its plain file name.
// The end is a symbol of its own rather than a count, because only the assembler knows the file's length.
struct EmbeddedFile {
  std::string_view name;
  const unsigned char* data;
  const unsigned char* data_end;

  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(data_end - data); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return std::as_bytes(std::span(data, size())); }
  [[nodiscard]] std::string_view text() const noexcept {
    return {static_cast<const char*>(static_cast<const void*>(data)), size()};
  }
};

// A manifest and its images. `images` is null when there are none.
struct EmbeddedKernelSet {
  std::string_view set;      // "kda"
  std::string_view backend;  // "cpu", "cuda", "hip", "vulkan"
  EmbeddedFile manifest;
  const EmbeddedFile* images;
  std::size_t image_count;

  [[nodiscard]] std::span<const EmbeddedFile> image_files() const noexcept { return {images, image_count}; }
};

}  // namespace kdart::detail
