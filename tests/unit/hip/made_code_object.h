// A code object made here, byte for byte. Its parts lie open, for a test to spoil.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kdart::test {

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const T& value) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof value);
}
void append(Bytes& bytes, const Bytes& more);
[[nodiscard]] Bytes bytes_of(std::string_view text);

// A note as it stands in a section: header, owner, text, each padded to four bytes.
[[nodiscard]] Bytes made_note(std::string_view owner, std::uint32_t type, const Bytes& text);

struct MadeSection {
  std::string name;
  Elf64_Shdr header{};
  Bytes bytes;
  std::uint64_t alignment = 8;
};

// For gfx90a:sramecc+:xnack-, version 5: the kernels `scale` of (pointer, 32-bit number, a hidden argument of 8 bytes),
// in waves of 64, and `empty` of nothing.
class MadeCodeObject {
 public:
  static constexpr std::uint32_t kernarg_bytes = 24;
  static constexpr std::size_t empty_at = 64;  // its descriptor among the two

  MadeCodeObject();

  Elf64_Ehdr header{};
  std::vector<MadeSection> sections;
  nlohmann::json metadata;
  std::optional<Bytes> document;     // what stands for the metadata
  std::vector<Elf64_Sym> symbols;    // of .dynsym, their values from the beginning of their sections until place()
  std::vector<Elf64_Phdr> segments;  // at least three: two loaded ones and the notes

  [[nodiscard]] MadeSection& section(std::string_view name);
  [[nodiscard]] nlohmann::json& kernel(std::size_t index) { return metadata["amdhsa.kernels"][index]; }
  void add(const std::string& name, std::uint32_t type, Bytes bytes, std::uint64_t alignment = 8);

  // Writes the note and gives everything its place. What a test spoils after it stays spoiled.
  void place();
  // The file, once it is placed.
  [[nodiscard]] Bytes write();
  [[nodiscard]] Bytes make() {
    place();
    return write();
  }
};

}  // namespace kdart::test
