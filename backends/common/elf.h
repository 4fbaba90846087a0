// Reading ELF files that nobody vouches for: what drivers are given as images. Every place that a file names is looked
// at before it is read, and no work grows faster than the bytes, however they refer to one another.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"
#include "kdart/error.h"

namespace kdart::common {

// The bytes, and the name that refusals give them. Both must outlive it.
class Image {
 public:
  Image(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  // Throws Error(invalid_image): "image 'file': " and the text.
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(ErrorCode::invalid_image, detail::format("image {}: {}", detail::quote(file_),
                                                         detail::format_packed(text, fmt::make_format_args(args...))));
  }

  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }

  // The only way to the bytes. Refuses a part that is not all within them.
  [[nodiscard]] std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size, std::string_view what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      refuse("{} should be {} bytes at {}, and the image has {} bytes", detail::printable(what, 160), size, offset,
             bytes_.size());
    }
    return bytes_.subspan(offset, size);
  }
  template <class T>
  [[nodiscard]] T read(std::uint64_t offset, std::string_view what) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, part(offset, sizeof value, what).data(), sizeof value);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_;
};

struct Section {
  Elf64_Shdr header;
  std::string_view name;  // in the image

  // For messages.
  [[nodiscard]] std::string shown() const { return detail::printable(name, 160); }
};

struct Elf {
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments;  // each within the bytes
  std::vector<Section> sections;     // each within the bytes; they may lie over one another
};

// Counts what is read of a file's parts of one kind. Parts that lie over one another would be read as often as there are
// of them, so altogether they may have no more bytes than the image.
class Reading {
 public:
  Reading(const Image& image, std::string_view parts) : image_(image), parts_(parts) {}

  void add(std::uint64_t bytes) {
    if (bytes > image_.size() - read_) image_.refuse("its {} lie over one another", parts_);
    read_ += bytes;
  }

 private:
  const Image& image_;
  std::string_view parts_;
  std::uint64_t read_ = 0;
};

// What an ELF file should be: "a cubin" and its machine's number.
struct ElfKind {
  std::string_view name;
  std::uint16_t machine;
};

// Header, section headers, names, sections and segments of a 64-bit little-endian file.
[[nodiscard]] Elf read_elf(const Image& image, const ElfKind& kind);

// The symbols of a section that is a table of them. Each one's name begins within its table of names, which ends in NUL,
// and its section is there.
[[nodiscard]] std::vector<Elf64_Sym> read_symbols(const Image& image, const Elf& elf, const Section& table);

// The name at `offset` of a table of names; refuses one of more than 16 KiB.
[[nodiscard]] std::string_view name_at(const Image& image, const Elf64_Shdr& names, std::uint64_t offset,
                                       std::string_view what);

}  // namespace kdart::common
