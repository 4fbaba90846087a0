#include "backends/common/elf.h"

namespace kdart::common {
namespace {

// A name is searched for its end: without a limit, a file of names that all end in one place would cost their product.
constexpr std::size_t longest_name = std::size_t{16} << 10U;

Elf64_Ehdr read_header(const Image& image, const ElfKind& kind) {
  const auto header = image.read<Elf64_Ehdr>(0, "the ELF header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) image.refuse("it is no ELF file, as {} is", kind.name);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    image.refuse("its ELF file is not 64-bit little-endian");
  if (header.e_machine != kind.machine)
    image.refuse("its ELF file is for machine {}, and {} for {}", header.e_machine, kind.name, kind.machine);
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    image.refuse("its section headers have {} bytes, expected {}", header.e_shentsize, sizeof(Elf64_Shdr));
  if (header.e_shstrndx >= header.e_shnum)
    image.refuse("its section names are in section {} of {}", header.e_shstrndx, header.e_shnum);
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))
    image.refuse("its program headers have {} bytes, expected {}", header.e_phentsize, sizeof(Elf64_Phdr));
  return header;
}

// From `offset` on, to the end of the table, which is a NUL: so the name at `offset` ends.
std::string_view names_from(const Image& image, const Elf64_Shdr& names, std::uint64_t offset, std::string_view what) {
  const auto table = image.part(names.sh_offset, names.sh_size, "a table of names");
  if (offset >= table.size())
    image.refuse("the name of {} should be at {} of a table of {} bytes", what, offset, table.size());
  if (table.back() != std::byte{0}) image.refuse("the name of {} does not end", what);
  return {reinterpret_cast<const char*>(table.data()) + offset, table.size() - offset};
}

std::vector<Section> read_sections(const Image& image, const Elf64_Ehdr& header) {
  const auto section_at = [&](std::uint64_t index) {
    // e_shoff may be anything; part() would not see the sum wrap.
    if (header.e_shoff > UINT64_MAX - index * sizeof(Elf64_Shdr))
      image.refuse("its section headers are past all bytes");
    return image.read<Elf64_Shdr>(header.e_shoff + index * sizeof(Elf64_Shdr), "a section header");
  };
  const Elf64_Shdr names = section_at(header.e_shstrndx);
  std::vector<Section> sections;
  for (std::uint64_t i = 0; i < header.e_shnum; ++i) {
    Section section{section_at(i), {}};
    section.name = name_at(image, names, section.header.sh_name, "a section");
    if (section.header.sh_type != SHT_NOBITS && section.header.sh_type != SHT_NULL)
      static_cast<void>(image.part(section.header.sh_offset, section.header.sh_size, section.name));
    sections.push_back(section);
  }
  return sections;
}

std::vector<Elf64_Phdr> read_segments(const Image& image, const Elf64_Ehdr& header) {
  std::vector<Elf64_Phdr> segments;
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    if (header.e_phoff > UINT64_MAX - i * sizeof(Elf64_Phdr)) image.refuse("its program headers are past all bytes");
    segments.push_back(image.read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr), "a program header"));
    static_cast<void>(image.part(segments.back().p_offset, segments.back().p_filesz, "a segment"));
  }
  return segments;
}

}  // namespace

std::string_view name_at(const Image& image, const Elf64_Shdr& names, std::uint64_t offset, std::string_view what) {
  const std::string_view rest = names_from(image, names, offset, what).substr(0, longest_name + 1);
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) image.refuse("the name of {} has more than {} bytes", what, longest_name);
  return rest.substr(0, end);
}

Elf read_elf(const Image& image, const ElfKind& kind) {
  Elf elf;
  elf.header = read_header(image, kind);
  elf.sections = read_sections(image, elf.header);
  elf.segments = read_segments(image, elf.header);
  return elf;
}

std::vector<Elf64_Sym> read_symbols(const Image& image, const Elf& elf, const Section& table) {
  if (table.header.sh_entsize != sizeof(Elf64_Sym)) {
    image.refuse("{}: its symbols have {} bytes, expected {}", table.shown(), table.header.sh_entsize,
                 sizeof(Elf64_Sym));
  }
  if (table.header.sh_link >= elf.sections.size()) {
    image.refuse("{}: its names are in section {} of {}", table.shown(), table.header.sh_link, elf.sections.size());
  }
  const Elf64_Shdr& names = elf.sections[table.header.sh_link].header;
  std::vector<Elf64_Sym> symbols;
  for (std::uint64_t at = 0; at < table.header.sh_size; at += sizeof(Elf64_Sym)) {
    const auto symbol = image.read<Elf64_Sym>(table.header.sh_offset + at, table.name);  // the sum was looked at
    static_cast<void>(names_from(image, names, symbol.st_name, "a symbol"));
    if (symbol.st_shndx < SHN_LORESERVE && symbol.st_shndx >= elf.sections.size())
      image.refuse("{}: a symbol of section {} of {}", table.shown(), symbol.st_shndx, elf.sections.size());
    symbols.push_back(symbol);
  }
  return symbols;
}

}  // namespace kdart::common
