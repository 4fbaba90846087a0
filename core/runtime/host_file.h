// Read-only files of the host, mapped.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

namespace kdart::detail {

struct MappedFile {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // unmaps when the last copy goes; null for an empty file
};

// Maps a regular file. Throws Error(io_error) naming the path and the system's reason.
[[nodiscard]] MappedFile map_file(const std::filesystem::path& path);

}  // namespace kdart::detail
