// Shared objects from memory: the system's loader, given bytes instead of a path.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace kdart::cpu {

// One shared object, loaded RTLD_LOCAL: its symbols are seen by nobody else. Move-only.
class SharedObject {
 public:
  // Loads a copy of `bytes`, which check_image has passed. `file` is for messages. Throws Error: invalid_image with the
  // loader's own words, io_error when the bytes cannot be put where the loader can read them.
  SharedObject(std::span<const std::byte> bytes, std::string_view file);
  ~SharedObject();
  SharedObject(const SharedObject&) = delete;
  SharedObject& operator=(const SharedObject&) = delete;

  // Null when there is no such symbol.
  [[nodiscard]] void* symbol(const char* name) const noexcept;

 private:
  // Kept open while loaded: the loader knows an object by its path, which has the descriptor's number in it, so another
  // copy of this library in the process cannot come to the same path.
  int descriptor_ = -1;
  void* handle_ = nullptr;
};

// A descriptor of a nameless file in memory, or in a temporary folder where the system has none of those. Throws
// Error(io_error).
enum class ImageFile { memory, temporary };
[[nodiscard]] int open_image_file(ImageFile kind);

}  // namespace kdart::cpu
