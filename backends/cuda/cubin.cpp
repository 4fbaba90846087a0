#include "backends/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <type_traits>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::cuda {
namespace {

constexpr std::uint16_t machine_cuda = 190;
constexpr std::uint32_t section_nv_info = 0x70000000;
constexpr std::string_view info_prefix = ".nv.info.";
constexpr std::string_view code_prefix = ".text.";

// Attributes in .nv.info: a byte that says how the value is given, a byte that says what it is, a half-word.
constexpr std::uint8_t value_of_given_size = 4;  // the half-word is the size of the value that follows
constexpr std::uint8_t attribute_parameter = 0x17;
constexpr std::size_t parameter_bytes = 12;
constexpr unsigned parameter_size_shift = 18;

class Image {
 public:
  Image(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error(ErrorCode::invalid_image, detail::format("image {}: {}", detail::quote(file_),
                                                         detail::format_packed(text, fmt::make_format_args(args...))));
  }

  // The only way to the bytes.
  [[nodiscard]] std::span<const std::byte> part(std::uint64_t offset, std::uint64_t size, std::string_view what) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) {
      refuse("{} should be {} bytes at {}, and the image has {} bytes", what, size, offset, bytes_.size());
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

Elf64_Ehdr read_header(const Image& image) {
  const auto header = image.read<Elf64_Ehdr>(0, "the ELF header");
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) image.refuse("it is no ELF file, as a cubin is");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
    image.refuse("its ELF file is not 64-bit little-endian");
  if (header.e_machine != machine_cuda)
    image.refuse("its ELF file is for machine {}, and a cubin for {}", header.e_machine, machine_cuda);
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    image.refuse("its section headers have {} bytes, expected {}", header.e_shentsize, sizeof(Elf64_Shdr));
  if (header.e_shstrndx >= header.e_shnum)
    image.refuse("its section names are in section {} of {}", header.e_shstrndx, header.e_shnum);
  if (header.e_phnum != 0 && header.e_phentsize != sizeof(Elf64_Phdr))
    image.refuse("its program headers have {} bytes, expected {}", header.e_phentsize, sizeof(Elf64_Phdr));
  return header;
}

// The compute capability: a byte of the flags, which moved with version 8 of the layout.
std::uint32_t capability_of(const Elf64_Ehdr& header) {
  constexpr unsigned char moved = 8;
  if (header.e_ident[EI_ABIVERSION] > moved) return 0;
  return header.e_flags >> (header.e_ident[EI_ABIVERSION] == moved ? 8U : 0U) & 0xFFU;
}

struct Section {
  Elf64_Shdr header;
  std::string_view name;
};

// The name at `offset` of a table of names.
std::string_view name_at(const Image& image, const Elf64_Shdr& names, std::uint64_t offset, std::string_view what) {
  const auto table = image.part(names.sh_offset, names.sh_size, "a table of names");
  if (offset >= table.size())
    image.refuse("the name of {} should be at {} of a table of {} bytes", what, offset, table.size());
  const std::string_view rest(reinterpret_cast<const char*>(table.data()) + offset, table.size() - offset);
  const std::size_t end = rest.find('\0');
  if (end == std::string_view::npos) image.refuse("the name of {} does not end", what);
  return rest.substr(0, end);
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

void check_segments(const Image& image, const Elf64_Ehdr& header) {
  for (std::uint64_t i = 0; i < header.e_phnum; ++i) {
    if (header.e_phoff > UINT64_MAX - i * sizeof(Elf64_Phdr)) image.refuse("its program headers are past all bytes");
    const auto segment = image.read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr), "a program header");
    static_cast<void>(image.part(segment.p_offset, segment.p_filesz, "a segment"));
  }
}

// What the driver looks kernels up in. Each symbol's name and section are there.
void check_symbols(const Image& image, const std::vector<Section>& sections, const Section& table) {
  if (table.header.sh_entsize != sizeof(Elf64_Sym))
    image.refuse("{}: its symbols have {} bytes, expected {}", table.name, table.header.sh_entsize, sizeof(Elf64_Sym));
  if (table.header.sh_link >= sections.size())
    image.refuse("{}: its names are in section {} of {}", table.name, table.header.sh_link, sections.size());
  const Elf64_Shdr& names = sections[table.header.sh_link].header;
  for (std::uint64_t at = 0; at < table.header.sh_size; at += sizeof(Elf64_Sym)) {
    const auto symbol = image.read<Elf64_Sym>(table.header.sh_offset + at, table.name);  // the sum was looked at
    static_cast<void>(name_at(image, names, symbol.st_name, "a symbol"));
    if (symbol.st_shndx < SHN_LORESERVE && symbol.st_shndx >= sections.size())
      image.refuse("{}: a symbol of section {} of {}", table.name, symbol.st_shndx, sections.size());
  }
}

struct Parameter {
  std::uint16_t ordinal = 0;
  CubinArgument argument;
};

// `value` is a parameter's: an index, the ordinal, the offset, and a word with the size in its upper bits.
Parameter read_parameter(std::span<const std::byte> value) {
  std::uint16_t offset = 0;
  std::uint32_t flags = 0;
  Parameter parameter;
  std::memcpy(&parameter.ordinal, value.data() + 4, sizeof parameter.ordinal);
  std::memcpy(&offset, value.data() + 6, sizeof offset);
  std::memcpy(&flags, value.data() + 8, sizeof flags);
  parameter.argument = {offset, flags >> parameter_size_shift};
  return parameter;
}

std::vector<CubinArgument> read_arguments(const Image& image, const Section& info) {
  std::vector<Parameter> parameters;
  const std::uint64_t end = info.header.sh_offset + info.header.sh_size;  // both were looked at
  for (std::uint64_t at = info.header.sh_offset; at < end;) {
    if (end - at < 4) image.refuse("{}: an attribute is cut off", info.name);
    const auto kind = image.read<std::uint8_t>(at, info.name);
    const auto attribute = image.read<std::uint8_t>(at + 1, info.name);
    const auto size = image.read<std::uint16_t>(at + 2, info.name);
    at += 4;
    if (kind != value_of_given_size) continue;
    if (size > end - at) image.refuse("{}: an attribute of {} bytes, where {} are left", info.name, size, end - at);
    if (attribute == attribute_parameter) {
      if (size < parameter_bytes) image.refuse("{}: a parameter described in {} bytes", info.name, size);
      parameters.push_back(read_parameter(image.part(at, parameter_bytes, info.name)));
    }
    at += size;
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const Parameter& a, const Parameter& b) { return a.ordinal < b.ordinal; });
  std::vector<CubinArgument> arguments;
  for (const Parameter& parameter : parameters) {
    if (parameter.ordinal != arguments.size())
      image.refuse("{}: parameter {} comes after {} others", info.name, parameter.ordinal, arguments.size());
    arguments.push_back(parameter.argument);
  }
  return arguments;
}

}  // namespace

const CubinKernel* Cubin::find(std::string_view symbol) const noexcept {
  const auto found =
      std::find_if(kernels.begin(), kernels.end(), [&](const CubinKernel& kernel) { return kernel.symbol == symbol; });
  return found == kernels.end() ? nullptr : &*found;
}

Cubin read_cubin(std::span<const std::byte> bytes, std::string_view file) {
  const Image image(bytes, file);
  const Elf64_Ehdr header = read_header(image);
  const std::vector<Section> sections = read_sections(image, header);
  check_segments(image, header);

  std::set<std::string_view> code;
  for (const Section& section : sections) {
    if (section.header.sh_type == SHT_SYMTAB) check_symbols(image, sections, section);
    if (section.name.starts_with(code_prefix)) code.insert(section.name.substr(code_prefix.size()));
  }

  Cubin cubin;
  cubin.capability = capability_of(header);
  for (const Section& section : sections) {
    if (section.header.sh_type != section_nv_info || !section.name.starts_with(info_prefix)) continue;
    const std::string_view symbol = section.name.substr(info_prefix.size());
    if (code.contains(symbol)) cubin.kernels.push_back({std::string(symbol), read_arguments(image, section)});
  }
  if (cubin.kernels.empty()) image.refuse("it has no kernel");
  return cubin;
}

void check_ptx(std::span<const std::byte> bytes, std::string_view file) {
  const Image image(bytes, file);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    image.refuse("it is no PTX: there is a NUL at {}", nul);
  for (const std::string_view directive : {".version ", ".target "}) {
    if (!text.starts_with(directive) && text.find("\n" + std::string(directive)) == std::string_view::npos)
      image.refuse("it is no PTX: it has no directive {}", directive);
  }
}

}  // namespace kdart::cuda
