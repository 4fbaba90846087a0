// A cubin made here, byte for byte: what is read of one, and each refusal, where no compiler for CUDA is there.
#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/cubin.h"
#include "kdart/error.h"

namespace kdart::test {
namespace {

using cuda::Cubin;
using cuda::CubinArgument;
using cuda::read_cubin;

using Bytes = std::vector<std::byte>;

template <class T>
void append(Bytes& bytes, const T& value) {
  const auto* data = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), data, data + sizeof value);
}

// An attribute whose value is of a stated size.
void append_attribute(Bytes& list, std::uint8_t which, const Bytes& value) {
  append(list, std::uint8_t{4});
  append(list, which);
  append(list, static_cast<std::uint16_t>(value.size()));
  list.insert(list.end(), value.begin(), value.end());
}

void append_parameter(Bytes& list, std::uint16_t ordinal, std::uint16_t offset, std::uint32_t size) {
  Bytes value;
  append(value, std::uint32_t{0});
  append(value, ordinal);
  append(value, offset);
  append(value, size << 18 | 0x1F000U);  // below the size lie other facts
  append_attribute(list, 0x17, value);
}

struct MadeSection {
  std::string name;
  Elf64_Shdr header{};
  Bytes bytes;
};

// Its parts lie open, for a test to spoil before make().
struct MadeCubin {
  Elf64_Ehdr header{};
  Elf64_Phdr segment{};
  std::vector<MadeSection> sections;
  std::string end_of_names = std::string(1, '\0');

  // One kernel, `scale`, of (pointer, 32-bit number), its parameters listed last first as ptxas lists them.
  MadeCubin() {
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_ABIVERSION] = 8;
    header.e_machine = 190;
    header.e_flags = 0x06005A04;
    header.e_ehsize = sizeof(Elf64_Ehdr);
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
    segment.p_type = PT_LOAD;

    add("", SHT_NULL, {});
    add(".shstrtab", SHT_STRTAB, {});
    header.e_shstrndx = 1;
    Bytes symbols(2 * sizeof(Elf64_Sym));
    Elf64_Sym symbol{};
    symbol.st_name = 1;
    symbol.st_shndx = 4;
    std::memcpy(symbols.data() + sizeof symbol, &symbol, sizeof symbol);
    add(".symtab", SHT_SYMTAB, symbols);
    section(".symtab").header.sh_entsize = sizeof(Elf64_Sym);
    section(".symtab").header.sh_link = 3;
    Bytes names;
    for (const char c : std::string_view("\0scale\0", 7)) append(names, c);
    add(".strtab", SHT_STRTAB, names);
    add(".text.scale", SHT_PROGBITS, Bytes(128));
    Bytes list;
    for (const std::uint8_t kind :
         {std::uint8_t{1}, std::uint8_t{2},
          std::uint8_t{3}}) {  // no value, a byte and a half-word, each in the attribute itself
      append(list, kind);
      append(list, std::uint8_t{0x17});
      append(list, std::uint16_t{0xFFFF});
    }
    append_parameter(list, 1, 8, 4);
    append_parameter(list, 0, 0, 8);
    append_attribute(list, 0x99, Bytes(5));
    add(".nv.info.scale", 0x70000000, list);
  }

  void add(std::string name, std::uint32_t type, Bytes bytes) {
    MadeSection added{std::move(name), {}, std::move(bytes)};
    added.header.sh_type = type;
    sections.push_back(std::move(added));
  }
  MadeSection& section(std::string_view name) {
    for (MadeSection& one : sections) {
      if (one.name == name) return one;
    }
    FAIL("no section " << name);
    return sections.front();
  }

  // Header, segment, sections, section headers. A size or place that a test has set is kept.
  [[nodiscard]] Bytes make() {
    std::string names;
    for (MadeSection& one : sections) {
      if (one.header.sh_name == 0) one.header.sh_name = static_cast<Elf64_Word>(names.size());
      names += one.name + '\0';
    }
    names.pop_back();
    names += end_of_names;
    for (const char c : names) append(section(".shstrtab").bytes, c);

    Bytes bytes(sizeof header + sizeof segment);
    for (MadeSection& one : sections) {
      if (one.header.sh_offset == 0) one.header.sh_offset = bytes.size();
      if (one.header.sh_size == 0) one.header.sh_size = one.bytes.size();
      bytes.insert(bytes.end(), one.bytes.begin(), one.bytes.end());
    }
    if (header.e_phoff == 0) header.e_phoff = sizeof header;
    if (header.e_shoff == 0) header.e_shoff = bytes.size();
    if (header.e_shnum == 0) header.e_shnum = static_cast<Elf64_Half>(sections.size());
    for (const MadeSection& one : sections) append(bytes, one.header);
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &segment, sizeof segment);
    return bytes;
  }
};

std::string refusal_of(const Bytes& bytes) {
  try {
    static_cast<void>(read_cubin(bytes, "made.cubin"));
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_image);
    const std::string_view what = error.what();
    const std::string_view start = "image 'made.cubin': ";
    const std::size_t at = what.find(start);
    REQUIRE(at != std::string_view::npos);
    return std::string(what.substr(at + start.size()));
  }
}

// What is said of the made cubin after `spoil` has been at its parts.
template <class Spoil>
std::string spoiled(const Spoil& spoil) {
  MadeCubin cubin;
  spoil(cubin);
  return refusal_of(cubin.make());
}

}  // namespace

TEST_CASE("a cubin made by hand is read", "[cuda][cubin][no-device]") {
  const Cubin cubin = read_cubin(MadeCubin().make(), "made.cubin");
  CHECK(cubin.capability == 90);
  REQUIRE(cubin.kernels.size() == 1);
  CHECK(cubin.kernels[0].symbol == "scale");
  CHECK(cubin.kernels[0].arguments == std::vector<CubinArgument>{{0, 8}, {8, 4}});
  CHECK(cubin.find("scale") == &cubin.kernels[0]);
  CHECK(cubin.find("scal") == nullptr);
}

TEST_CASE("the capability of a cubin made by hand is where its layout has it", "[cuda][cubin][no-device]") {
  MadeCubin older;
  older.header.e_ident[EI_ABIVERSION] = 7;
  older.header.e_flags = 0x00500550;
  CHECK(read_cubin(older.make(), "made.cubin").capability == 80);
  MadeCubin newer;
  newer.header.e_ident[EI_ABIVERSION] = 9;
  CHECK(read_cubin(newer.make(), "made.cubin").capability == 0);
}

TEST_CASE("attributes of what has no code are no kernel", "[cuda][cubin][no-device]") {
  MadeCubin with_function;
  with_function.add(".nv.info.helper", 0x70000000, Bytes(3));  // would be cut off, were it read
  CHECK(read_cubin(with_function.make(), "made.cubin").kernels.size() == 1);
  CHECK(spoiled([](MadeCubin& c) { c.section(".text.scale").name = ".text.other"; }) == "it has no kernel");
  CHECK(spoiled([](MadeCubin& c) { c.section(".nv.info.scale").header.sh_type = SHT_PROGBITS; }) == "it has no kernel");
}

TEST_CASE("a made header that is none of a cubin is refused by its message", "[cuda][cubin][no-device]") {
  CHECK(refusal_of(Bytes(63)) == "the ELF header should be 64 bytes at 0, and the image has 63 bytes");
  CHECK(refusal_of(Bytes(64)) == "it is no ELF file, as a cubin is");
  const std::string not_64 = "its ELF file is not 64-bit little-endian";
  CHECK(spoiled([](MadeCubin& c) { c.header.e_ident[EI_CLASS] = ELFCLASS32; }) == not_64);
  CHECK(spoiled([](MadeCubin& c) { c.header.e_ident[EI_DATA] = ELFDATA2MSB; }) == not_64);
  CHECK(spoiled([](MadeCubin& c) { c.header.e_machine = EM_AARCH64; }) ==
        "its ELF file is for machine 183, and a cubin for 190");
  CHECK(spoiled([](MadeCubin& c) { c.header.e_shentsize = 40; }) == "its section headers have 40 bytes, expected 64");
  CHECK(spoiled([](MadeCubin& c) { c.header.e_shstrndx = 6; }) == "its section names are in section 6 of 6");
  CHECK(spoiled([](MadeCubin& c) { c.header.e_phentsize = 32; }) == "its program headers have 32 bytes, expected 56");
}

TEST_CASE("made tables that lie outside the bytes are refused by their message", "[cuda][cubin][no-device]") {
  const auto size = std::to_string(MadeCubin().make().size());
  const std::string whole = ", and the image has " + size + " bytes";
  CHECK(spoiled([](MadeCubin& c) { c.header.e_shoff = 1 << 20; }) ==
        "a section header should be 64 bytes at 1048640" + whole);
  CHECK(spoiled([](MadeCubin& c) { c.header.e_shoff = UINT64_MAX; }) == "its section headers are past all bytes");
  CHECK(spoiled([](MadeCubin& c) { c.header.e_phoff = 1 << 20; }) ==
        "a program header should be 56 bytes at 1048576" + whole);
  CHECK(spoiled([](MadeCubin& c) { c.segment.p_filesz = 1 << 20; }) ==
        "a segment should be 1048576 bytes at 0" + whole);
  CHECK(spoiled([](MadeCubin& c) { c.section(".text.scale").header.sh_offset = UINT64_MAX; }) ==
        ".text.scale should be 128 bytes at 18446744073709551615" + whole);
  CHECK(spoiled([](MadeCubin& c) {
          c.section(".shstrtab").header.sh_offset = 1 << 20;
        }).starts_with("a table of names should be "));
  // One more section than there are headers for, at the end of the file.
  CHECK(spoiled([](MadeCubin& c) { c.header.e_shnum = 7; }) ==
        "a section header should be 64 bytes at " + size + whole);
}

TEST_CASE("made names that are nowhere are refused by their message", "[cuda][cubin][no-device]") {
  CHECK(spoiled([](MadeCubin& c) {
          c.section(".text.scale").header.sh_name = 5000;
        }).starts_with("the name of a section should be at 5000 of a table of "));
  CHECK(spoiled([](MadeCubin& c) { c.end_of_names = ""; }) == "the name of a section does not end");
}

TEST_CASE("made symbols that are nowhere are refused by their message", "[cuda][cubin][no-device]") {
  const auto symbol = [](auto change) {
    return spoiled([&](MadeCubin& c) {
      Bytes& table = c.section(".symtab").bytes;
      Elf64_Sym last;
      std::memcpy(&last, table.data() + sizeof last, sizeof last);
      change(last);
      std::memcpy(table.data() + sizeof last, &last, sizeof last);
    });
  };
  CHECK(symbol([](Elf64_Sym& s) { s.st_name = 7; }) == "the name of a symbol should be at 7 of a table of 7 bytes");
  CHECK(symbol([](Elf64_Sym& s) { s.st_shndx = 6; }) == ".symtab: a symbol of section 6 of 6");
  CHECK(symbol([](Elf64_Sym& s) { s.st_shndx = SHN_ABS; }).empty());
  CHECK(spoiled([](MadeCubin& c) { c.section(".symtab").header.sh_entsize = 16; }) ==
        ".symtab: its symbols have 16 bytes, expected 24");
  CHECK(spoiled([](MadeCubin& c) { c.section(".symtab").header.sh_link = 6; }) ==
        ".symtab: its names are in section 6 of 6");
}

TEST_CASE("made attributes that do not add up are refused by their message", "[cuda][cubin][no-device]") {
  const auto attributes = [](auto change) {
    return spoiled([&](MadeCubin& c) { change(c.section(".nv.info.scale").bytes); });
  };
  const std::string list = ".nv.info.scale: ";
  CHECK(attributes([](Bytes& b) { b.push_back(std::byte{4}); }) == list + "an attribute is cut off");
  CHECK(attributes([](Bytes& b) { b.pop_back(); }) == list + "an attribute of 5 bytes, where 4 are left");
  CHECK(attributes([](Bytes& b) { append_attribute(b, 0x17, Bytes(11)); }) ==
        list + "a parameter described in 11 bytes");
  CHECK(attributes([](Bytes& b) { append_parameter(b, 3, 16, 8); }) == list + "parameter 3 comes after 2 others");
  CHECK(attributes([](Bytes& b) { append_parameter(b, 1, 8, 4); }) == list + "parameter 1 comes after 2 others");
  CHECK(attributes([](Bytes& b) { b.clear(); }).empty());  // a kernel without arguments
}

TEST_CASE("made parts that lie over one another are refused", "[cuda][cubin][no-device]") {
  CHECK(spoiled([](MadeCubin& c) { c.sections.push_back(c.section(".nv.info.scale")); }) ==
        "it describes kernel 'scale' twice");
  CHECK(spoiled([](MadeCubin& c) {
          c.section(".symtab").bytes.resize(24'000);
          c.add(".symtab2", SHT_SYMTAB, {});
          c.add(".symtab3", SHT_SYMTAB, {});
          for (const std::string_view again : {".symtab2", ".symtab3"}) {
            c.section(again).header = c.section(".symtab").header;
            c.section(again).header.sh_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr);
            c.section(again).header.sh_size = 24'000;
          }
        }) == "its tables of symbols lie over one another");
  CHECK(spoiled([](MadeCubin& c) {
          // Attributes without a value, and two more kernels that have most of the same ones.
          c.section(".nv.info.scale").bytes = Bytes(40'000, std::byte{1});
          for (const std::string name : {"again", "more"}) {
            c.add(".text." + name, SHT_PROGBITS, Bytes(4));
            c.add(".nv.info." + name, 0x70000000, {});
            c.sections.back().header.sh_offset = 2'000;
            c.sections.back().header.sh_size = 36'000;
          }
        }) == "its attributes lie over one another");
}

}  // namespace kdart::test
