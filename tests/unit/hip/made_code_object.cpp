#include "tests/unit/hip/made_code_object.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <utility>

namespace kdart::test {
namespace {

using nlohmann::json;

json argument(std::uint32_t offset, std::uint32_t size, std::string_view kind) {
  return {{".offset", offset}, {".size", size}, {".value_kind", kind}};
}

json made_kernel(const std::string& name, std::uint32_t kernarg_bytes) {
  return {{".name", name},
          {".symbol", name + ".kd"},
          {".kernarg_segment_size", kernarg_bytes},
          {".kernarg_segment_align", 8},
          {".group_segment_fixed_size", 512},
          {".private_segment_fixed_size", 16},
          {".wavefront_size", 64},
          {".max_flat_workgroup_size", 256},
          {".sgpr_count", 20},
          {".vgpr_count", 31}};
}

json made_metadata() {
  json scale = made_kernel("scale", MadeCodeObject::kernarg_bytes);
  scale[".args"] = json::array(
      {argument(0, 8, "global_buffer"), argument(8, 4, "by_value"), argument(16, 8, "hidden_global_offset_x")});
  scale[".sgpr_spill_count"] = 3;
  scale[".vgpr_spill_count"] = 2;
  return {{"amdhsa.version", {1, 2}},
          {"amdhsa.target", "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"},
          {"amdhsa.kernels", json::array({scale, made_kernel("empty", 0)})}};
}

// The entry lies `entry` bytes from the descriptor.
Bytes made_descriptor(std::uint32_t kernarg_bytes, std::int64_t entry) {
  Bytes bytes;
  for (const std::uint32_t word : {512U, 16U, kernarg_bytes, 0U}) append(bytes, word);
  append(bytes, entry);
  bytes.resize(64);
  return bytes;
}

}  // namespace

void append(Bytes& bytes, const Bytes& more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

Bytes bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

Bytes made_note(std::string_view owner, std::uint32_t type, const Bytes& text) {
  Bytes note;
  append(note, static_cast<std::uint32_t>(owner.size()));
  append(note, static_cast<std::uint32_t>(text.size()));
  append(note, type);
  for (const Bytes& part : {bytes_of(owner), text}) {
    append(note, part);
    note.resize((note.size() + 3) / 4 * 4);
  }
  return note;
}

MadeCodeObject::MadeCodeObject() : metadata(made_metadata()) {
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_OSABI] = 64;
  header.e_ident[EI_ABIVERSION] = 3;
  header.e_type = ET_DYN;
  header.e_machine = 224;
  header.e_flags = 0x0E3F;  // sramecc on, xnack off, gfx90a
  header.e_ehsize = sizeof(Elf64_Ehdr);
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shstrndx = 1;

  // 128 bytes of descriptors, aligned to 256, and after them the code, aligned so too.
  Bytes descriptors = made_descriptor(kernarg_bytes, 256);
  append(descriptors, made_descriptor(0, 256 - 64));
  add("", SHT_NULL, {});
  add(".shstrtab", SHT_STRTAB, {});
  add(".note", SHT_NOTE, {});
  add(".dynsym", SHT_DYNSYM, {});
  add(".dynstr", SHT_STRTAB, bytes_of({"\0scale.kd\0empty.kd\0scale\0", 25}));
  add(".rodata", SHT_PROGBITS, descriptors, 256);
  add(".text", SHT_PROGBITS, Bytes(512), 256);
  section(".dynsym").header.sh_entsize = sizeof(Elf64_Sym);
  section(".dynsym").header.sh_link = 4;
  const auto symbol = [](Elf64_Word name, Elf64_Half in, Elf64_Addr at, Elf64_Xword size) {
    Elf64_Sym made{};
    made.st_name = name;
    made.st_shndx = in;
    made.st_value = at;
    made.st_size = size;
    return made;
  };
  symbols = {Elf64_Sym{}, symbol(1, 5, 0, 64), symbol(10, 5, empty_at, 64), symbol(19, 6, 0, 512)};
}

void MadeCodeObject::add(const std::string& name, std::uint32_t type, Bytes bytes, std::uint64_t alignment) {
  MadeSection added{name, {}, std::move(bytes), alignment};
  added.header.sh_type = type;
  sections.push_back(std::move(added));
}

MadeSection& MadeCodeObject::section(std::string_view name) {
  for (MadeSection& one : sections) {
    if (one.name == name) return one;
  }
  FAIL("no section " << name);
  return sections.front();
}

void MadeCodeObject::place() {
  Bytes packed;
  for (const std::uint8_t byte : nlohmann::json::to_msgpack(metadata)) append(packed, byte);
  append(section(".note").bytes, made_note({"AMDGPU\0", 7}, 32, document.value_or(packed)));

  Bytes& names = section(".shstrtab").bytes;
  for (MadeSection& one : sections) {
    one.header.sh_name = static_cast<Elf64_Word>(names.size());
    append(names, bytes_of(one.name));
    append(names, '\0');
  }
  section(".dynsym").bytes.resize(symbols.size() * sizeof(Elf64_Sym));
  segments.resize(std::max(segments.size(), std::size_t{3}));
  std::uint64_t at = sizeof header + segments.size() * sizeof(Elf64_Phdr);
  for (MadeSection& one : sections) {
    at = (at + one.alignment - 1) / one.alignment * one.alignment;
    if (one.header.sh_type == SHT_NULL) continue;
    one.header.sh_offset = one.header.sh_addr = at;
    one.header.sh_size = one.bytes.size();
    at += one.bytes.size();
  }
  for (Elf64_Sym& symbol : symbols) symbol.st_value += sections.at(symbol.st_shndx).header.sh_addr;

  const auto segment = [](std::uint32_t type, std::uint32_t flags, std::uint64_t begin, std::uint64_t end) {
    return Elf64_Phdr{type, flags, begin, begin, begin, end - begin, end - begin, 8};
  };
  const auto end_of = [](const Elf64_Shdr& one) { return one.sh_offset + one.sh_size; };
  const Elf64_Shdr &note = section(".note").header, &text = section(".text").header;
  segments[0] = segment(PT_LOAD, PF_R, 0, end_of(section(".rodata").header));
  segments[1] = segment(PT_LOAD, PF_R | PF_X, text.sh_offset, end_of(text));
  segments[2] = segment(PT_NOTE, PF_R, note.sh_offset, end_of(note));
  header.e_phoff = sizeof header;
  header.e_phnum = static_cast<Elf64_Half>(segments.size());
  header.e_shoff = at;
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
}

Bytes MadeCodeObject::write() {
  std::memcpy(section(".dynsym").bytes.data(), symbols.data(), symbols.size() * sizeof(Elf64_Sym));
  Bytes bytes;
  append(bytes, header);
  for (const Elf64_Phdr& segment : segments) append(bytes, segment);
  for (const MadeSection& one : sections) {
    bytes.resize((bytes.size() + one.alignment - 1) / one.alignment * one.alignment);
    append(bytes, one.bytes);
  }
  for (const MadeSection& one : sections) append(bytes, one.header);
  return bytes;
}

}  // namespace kdart::test
