#include "backends/cuda/cubin.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "backends/common/elf.h"

namespace kdart::cuda {
namespace {

using common::Elf;
using common::Image;
using common::Section;

constexpr common::ElfKind cubin_kind{"a cubin", 190};
constexpr std::uint32_t section_nv_info = 0x70000000;
constexpr std::string_view info_prefix = ".nv.info.";
constexpr std::string_view code_prefix = ".text.";

// Attributes in .nv.info: a byte that says how the value is given, a byte that says what it is, a half-word.
constexpr std::uint8_t value_of_given_size = 4;  // the half-word is the size of the value that follows
constexpr std::uint8_t attribute_parameter = 0x17;
constexpr std::size_t parameter_bytes = 12;
constexpr unsigned parameter_size_shift = 18;

// The compute capability: a byte of the flags, which moved with version 8 of the layout.
std::uint32_t capability_of(const Elf64_Ehdr& header) {
  constexpr unsigned char moved = 8;
  if (header.e_ident[EI_ABIVERSION] > moved) return 0;
  return header.e_flags >> (header.e_ident[EI_ABIVERSION] == moved ? 8U : 0U) & 0xFFU;
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
    if (end - at < 4) image.refuse("{}: an attribute is cut off", info.shown());
    const auto kind = image.read<std::uint8_t>(at, info.name);
    const auto attribute = image.read<std::uint8_t>(at + 1, info.name);
    const auto size = image.read<std::uint16_t>(at + 2, info.name);
    at += 4;
    if (kind != value_of_given_size) continue;
    if (size > end - at) image.refuse("{}: an attribute of {} bytes, where {} are left", info.shown(), size, end - at);
    if (attribute == attribute_parameter) {
      if (size < parameter_bytes) image.refuse("{}: a parameter described in {} bytes", info.shown(), size);
      parameters.push_back(read_parameter(image.part(at, parameter_bytes, info.name)));
    }
    at += size;
  }
  std::sort(parameters.begin(), parameters.end(),
            [](const Parameter& a, const Parameter& b) { return a.ordinal < b.ordinal; });
  std::vector<CubinArgument> arguments;
  for (const Parameter& parameter : parameters) {
    if (parameter.ordinal != arguments.size())
      image.refuse("{}: parameter {} comes after {} others", info.shown(), parameter.ordinal, arguments.size());
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
  const Elf elf = common::read_elf(image, cubin_kind);

  std::set<std::string_view> code, described;
  common::Reading symbols(image, "tables of symbols"), attributes(image, "attributes");
  for (const Section& section : elf.sections) {
    if (section.header.sh_type == SHT_SYMTAB) {  // what the driver looks kernels up in
      symbols.add(section.header.sh_size);
      static_cast<void>(common::read_symbols(image, elf, section));
    }
    if (section.name.starts_with(code_prefix)) code.insert(section.name.substr(code_prefix.size()));
  }

  Cubin cubin;
  cubin.capability = capability_of(elf.header);
  for (const Section& section : elf.sections) {
    if (section.header.sh_type != section_nv_info || !section.name.starts_with(info_prefix)) continue;
    const std::string_view symbol = section.name.substr(info_prefix.size());
    if (!code.contains(symbol)) continue;
    if (!described.insert(symbol).second) image.refuse("it describes kernel {} twice", detail::quote(symbol));
    attributes.add(section.header.sh_size);
    cubin.kernels.push_back({std::string(symbol), read_arguments(image, section)});
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
