#include "backends/hip/code_object.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "backends/common/elf.h"
#include "backends/hip/metadata.h"
#include "core/runtime/amd_target.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::hip {
namespace {

using common::Elf;
using common::Image;
using common::Section;
using detail::quote;

constexpr common::ElfKind code_object_kind{"a code object", 224};
constexpr unsigned os_abi_hsa = 64;
constexpr std::uint32_t note_metadata = 32;
constexpr std::string_view note_owner{"AMDGPU\0", 7};

struct Processor {
  std::uint8_t number;
  std::string_view name;
};

// EF_AMDGPU_MACH of LLVM's User Guide for AMDGPU Backend, from gfx9 to gfx12.
constexpr std::array processors{
    Processor{0x2C, "gfx900"},          Processor{0x2D, "gfx902"},          Processor{0x2E, "gfx904"},
    Processor{0x2F, "gfx906"},          Processor{0x30, "gfx908"},          Processor{0x31, "gfx909"},
    Processor{0x32, "gfx90c"},          Processor{0x33, "gfx1010"},         Processor{0x34, "gfx1011"},
    Processor{0x35, "gfx1012"},         Processor{0x36, "gfx1030"},         Processor{0x37, "gfx1031"},
    Processor{0x38, "gfx1032"},         Processor{0x39, "gfx1033"},         Processor{0x3D, "gfx1035"},
    Processor{0x3E, "gfx1034"},         Processor{0x3F, "gfx90a"},          Processor{0x40, "gfx940"},
    Processor{0x41, "gfx1100"},         Processor{0x42, "gfx1013"},         Processor{0x43, "gfx1150"},
    Processor{0x44, "gfx1103"},         Processor{0x45, "gfx1036"},         Processor{0x46, "gfx1101"},
    Processor{0x47, "gfx1102"},         Processor{0x48, "gfx1200"},         Processor{0x49, "gfx1250"},
    Processor{0x4A, "gfx1151"},         Processor{0x4B, "gfx941"},          Processor{0x4C, "gfx942"},
    Processor{0x4E, "gfx1201"},         Processor{0x4F, "gfx950"},          Processor{0x51, "gfx9-generic"},
    Processor{0x52, "gfx10-1-generic"}, Processor{0x53, "gfx10-3-generic"}, Processor{0x54, "gfx11-generic"},
    Processor{0x55, "gfx1152"},         Processor{0x58, "gfx1153"},         Processor{0x59, "gfx12-generic"},
    Processor{0x5A, "gfx1251"},         Processor{0x5B, "gfx12-5-generic"}, Processor{0x5F, "gfx9-4-generic"}};

// What the command processor reads of a kernel before it starts it.
struct Descriptor {
  std::uint32_t static_shared_bytes;
  std::uint32_t scratch_bytes;
  std::uint32_t kernarg_bytes;
  std::uint32_t reserved0;
  std::int64_t entry;  // from the descriptor's own address
  std::array<std::byte, 20> reserved1;
  std::array<std::uint32_t, 3> registers;
  std::uint16_t properties;
  std::uint16_t preload;
  std::uint32_t reserved2;
};
static_assert(sizeof(Descriptor) == 64);
constexpr unsigned property_wave_of_32 = 1U << 10U;
constexpr std::uint64_t entry_alignment = 256, instruction_bytes = 4;

std::uint32_t read_version(const Image& image, const Elf64_Ehdr& header) {
  if (header.e_ident[EI_OSABI] != os_abi_hsa)
    image.refuse("its OS ABI is {}, and a code object's {}", header.e_ident[EI_OSABI], os_abi_hsa);
  // The format's versions 2 to 6 have the numbers 0 to 4. Up to version 3 the flags mean something else.
  const std::uint32_t version = header.e_ident[EI_ABIVERSION] + 2U;
  if (version < 4 || version > 6) image.refuse("it is a code object of version {}, and 4 to 6 are read", version);
  if (header.e_type != ET_DYN)
    image.refuse("its ELF file is of type {}, and a linked code object of type {}", header.e_type, ET_DYN);
  return version;
}

// A feature's two bits: not supported, any, off, on.
char setting_of(std::uint32_t flags, unsigned shift) {
  constexpr std::array<char, 4> settings{0, 0, '-', '+'};
  return settings.at(flags >> shift & 3U);
}

detail::AmdTarget read_target(const Image& image, std::uint32_t flags, std::uint32_t version) {
  const std::uint32_t number = flags & 0xFFU;
  const auto* const processor = std::find_if(processors.begin(), processors.end(),
                                             [&](const Processor& known) { return known.number == number; });
  if (processor == processors.end()) image.refuse("its processor has the unknown number {:#x}", number);
  if (version < 6 && processor->name.ends_with("-generic"))
    image.refuse("it is for {}, and of version {}, which has no generic targets", processor->name, version);
  return {processor->name, setting_of(flags, 10), setting_of(flags, 8)};
}

std::string text_of(const detail::AmdTarget& target) {
  std::string text(target.processor);
  if (target.sramecc != 0) text += target.sramecc == '+' ? ":sramecc+" : ":sramecc-";
  if (target.xnack != 0) text += target.xnack == '+' ? ":xnack+" : ":xnack-";
  return text;
}

struct Range {
  std::uint64_t offset = 0, size = 0;
  friend auto operator<=>(const Range&, const Range&) = default;
};

// Adds the places of the metadata among the notes that stand from `at` to `end`, which are within the bytes.
void find_metadata(const Image& image, Range notes, std::set<Range>& found) {
  const std::uint64_t end = notes.offset + notes.size;
  const auto padded = [](std::uint64_t size) { return (size + 3) & ~std::uint64_t{3}; };
  for (std::uint64_t at = notes.offset; at < end;) {
    if (end - at < sizeof(Elf64_Nhdr)) image.refuse("a note is cut off");
    const auto header = image.read<Elf64_Nhdr>(at, "a note");
    const std::uint64_t name_at = at + sizeof header, text_at = name_at + padded(header.n_namesz);
    if (text_at > end || header.n_descsz > end - text_at)
      image.refuse("a note has {} and {} bytes, where {} are left", header.n_namesz, header.n_descsz, end - name_at);
    const auto name = image.part(name_at, header.n_namesz, "a note's name");
    const std::string_view owner(reinterpret_cast<const char*>(name.data()), name.size());
    if (owner == note_owner && header.n_type == note_metadata) found.insert({text_at, header.n_descsz});
    at = text_at + padded(header.n_descsz);
  }
}

// Loaders look in segments or in sections: what they find must be the same.
std::span<const std::byte> metadata_of(const Image& image, const Elf& elf) {
  std::set<Range> found;
  common::Reading segments(image, "segments of notes"), sections(image, "sections of notes");
  for (const Elf64_Phdr& segment : elf.segments) {
    if (segment.p_type != PT_NOTE) continue;
    segments.add(segment.p_filesz);
    find_metadata(image, {segment.p_offset, segment.p_filesz}, found);
  }
  for (const Section& section : elf.sections) {
    if (section.header.sh_type != SHT_NOTE) continue;
    sections.add(section.header.sh_size);
    find_metadata(image, {section.header.sh_offset, section.header.sh_size}, found);
  }
  if (found.size() != 1) image.refuse("it has {} notes of kernel metadata, expected 1", found.size());
  return image.part(found.begin()->offset, found.begin()->size, "the metadata");
}

// The segments that become memory: in order of their addresses, as they have to stand, and apart.
std::vector<Elf64_Phdr> loaded_segments(const Image& image, const Elf& elf) {
  std::vector<Elf64_Phdr> loaded;
  std::uint64_t end = 0;
  for (const Elf64_Phdr& segment : elf.segments) {
    if (segment.p_type != PT_LOAD) continue;
    if (segment.p_filesz > segment.p_memsz)
      image.refuse("a segment has {} bytes in the file and {} in memory", segment.p_filesz, segment.p_memsz);
    if (segment.p_vaddr < end || segment.p_memsz > UINT64_MAX - segment.p_vaddr)
      image.refuse("its loaded segments are not apart and in order");
    end = segment.p_vaddr + segment.p_memsz;
    loaded.push_back(segment);
  }
  return loaded;
}

// The segment whose bytes in the file, or in memory, are those at an address.
const Elf64_Phdr* segment_at(const std::vector<Elf64_Phdr>& loaded, std::uint64_t address, std::uint64_t size,
                             Elf64_Xword Elf64_Phdr::* extent = &Elf64_Phdr::p_filesz) {
  const auto after = std::upper_bound(loaded.begin(), loaded.end(), address,
                                      [](std::uint64_t at, const Elf64_Phdr& segment) { return at < segment.p_vaddr; });
  if (after == loaded.begin()) return nullptr;
  const Elf64_Phdr& segment = *std::prev(after);
  const std::uint64_t within = address - segment.p_vaddr;
  return within <= segment.*extent && size <= segment.*extent - within ? &segment : nullptr;
}

// What a loader writes into the loaded segments: each address of eight bytes lies within them, and each symbol is there.
void check_relocations(const Image& image, const Elf& elf, const std::vector<Elf64_Phdr>& loaded) {
  common::Reading tables(image, "relocations");
  for (const Section& section : elf.sections) {
    const Elf64_Shdr& header = section.header;
    if (header.sh_type == SHT_REL) image.refuse("its relocations {} have no addends", quote(section.name));
    if (header.sh_type != SHT_RELA) continue;
    if (header.sh_entsize != sizeof(Elf64_Rela) || header.sh_size % sizeof(Elf64_Rela) != 0)
      image.refuse("its relocations {} do not have {} bytes each", quote(section.name), sizeof(Elf64_Rela));
    if (header.sh_link >= elf.sections.size())
      image.refuse("its relocations {} have their symbols in section {}", quote(section.name), header.sh_link);
    const std::uint64_t symbols = elf.sections[header.sh_link].header.sh_size / sizeof(Elf64_Sym);
    tables.add(header.sh_size);
    for (std::uint64_t at = 0; at < header.sh_size; at += sizeof(Elf64_Rela)) {
      const auto relocation = image.read<Elf64_Rela>(header.sh_offset + at, section.name);
      if (segment_at(loaded, relocation.r_offset, sizeof(std::uint64_t), &Elf64_Phdr::p_memsz) == nullptr)
        image.refuse("a relocation of {} is at {:#x}, where nothing is loaded", quote(section.name),
                     relocation.r_offset);
      if (ELF64_R_SYM(relocation.r_info) != 0 && ELF64_R_SYM(relocation.r_info) >= symbols)
        image.refuse("a relocation of {} is to symbol {} of {}", quote(section.name), ELF64_R_SYM(relocation.r_info),
                     symbols);
    }
  }
}

class KernelCheck {
 public:
  KernelCheck(const Image& image, const Elf& elf, const std::vector<CodeObjectKernel>& kernels)
      : image_(image), elf_(elf), loaded_(loaded_segments(image, elf)) {
    for (const CodeObjectKernel& kernel : kernels) kernels_.emplace(kernel.symbol + ".kd", Found{&kernel});
  }

  // Each kernel has a descriptor, and one alone, wherever a loader looks it up; relocations write where they may.
  void run() {
    check_relocations(image_, elf_, loaded_);
    common::Reading tables(image_, "tables of symbols");
    for (const Section& section : elf_.sections) {
      if (section.header.sh_type != SHT_DYNSYM && section.header.sh_type != SHT_SYMTAB) continue;
      tables.add(section.header.sh_size);
      for (const Elf64_Sym& symbol : common::read_symbols(image_, elf_, section)) {
        const Elf64_Shdr& names = elf_.sections[section.header.sh_link].header;
        const auto kernel = kernels_.find(common::name_at(image_, names, symbol.st_name, "a symbol"));
        if (kernel == kernels_.end()) continue;
        check_descriptor(*kernel->second.kernel, symbol);
        if (kernel->second.there && kernel->second.address != symbol.st_value)
          image_.refuse("kernel {} has two descriptors", quote(kernel->second.kernel->symbol));
        kernel->second.there = true;
        kernel->second.address = symbol.st_value;
      }
    }
    for (const auto& [symbol, found] : kernels_) {
      if (!found.there)
        image_.refuse("kernel {} has no descriptor: the symbol is missing", quote(found.kernel->symbol));
    }
  }

 private:
  struct Found {
    const CodeObjectKernel* kernel;
    bool there = false;
    std::uint64_t address = 0;
  };

  [[noreturn]] void refuse(const CodeObjectKernel& kernel, std::string_view what) const {
    image_.refuse("kernel {}: its descriptor {}", quote(kernel.symbol), what);
  }

  void check_descriptor(const CodeObjectKernel& kernel, const Elf64_Sym& symbol) const {
    if (symbol.st_size != sizeof(Descriptor))
      refuse(kernel, detail::format("has {} bytes, expected {}", symbol.st_size, sizeof(Descriptor)));
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE) refuse(kernel, "is in no section");
    const Elf64_Shdr& section = elf_.sections[symbol.st_shndx].header;
    const std::uint64_t within = symbol.st_value - section.sh_addr;
    if (section.sh_type != SHT_PROGBITS || symbol.st_value < section.sh_addr || within > section.sh_size ||
        sizeof(Descriptor) > section.sh_size - within) {
      refuse(kernel, detail::format("is not within its section {}", quote(elf_.sections[symbol.st_shndx].name)));
    }
    const Elf64_Phdr* const segment = segment_at(loaded_, symbol.st_value, sizeof(Descriptor));
    if (segment == nullptr || segment->p_offset + (symbol.st_value - segment->p_vaddr) != section.sh_offset + within)
      refuse(kernel, "is in no loaded segment");
    if (symbol.st_value % sizeof(Descriptor) != 0)
      refuse(kernel, detail::format("is at {:#x}, which is no multiple of {}", symbol.st_value, sizeof(Descriptor)));
    check_content(kernel, image_.read<Descriptor>(section.sh_offset + within, "a descriptor"), symbol.st_value);
  }

  void check_content(const CodeObjectKernel& kernel, const Descriptor& descriptor, std::uint64_t address) const {
    const auto agree = [&](std::string_view what, std::uint32_t states, std::uint32_t expected) {
      if (states != expected)
        refuse(kernel, detail::format("states {} {}, and the metadata {}", what, states, expected));
    };
    agree("static shared bytes", descriptor.static_shared_bytes, kernel.static_shared_bytes);
    agree("scratch bytes", descriptor.scratch_bytes, kernel.scratch_bytes);
    agree("argument bytes", descriptor.kernarg_bytes, kernel.kernarg_bytes);
    agree("wave size", (descriptor.properties & property_wave_of_32) != 0 ? 32 : 64, kernel.wave_size);

    const std::uint64_t entry = address + static_cast<std::uint64_t>(descriptor.entry);
    const Elf64_Phdr* const code = segment_at(loaded_, entry, instruction_bytes);
    if (code == nullptr || (code->p_flags & PF_X) == 0 || entry % entry_alignment != 0)
      refuse(kernel, detail::format("has its entry at {:#x}, where no code is", entry));
  }

  const Image& image_;
  const Elf& elf_;
  std::vector<Elf64_Phdr> loaded_;
  std::map<std::string, Found, std::less<>> kernels_;  // by the descriptor's symbol
};

}  // namespace

const CodeObjectKernel* CodeObject::find(std::string_view symbol) const noexcept {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const CodeObjectKernel& kernel) { return kernel.symbol == symbol; });
  return found == kernels.end() ? nullptr : &*found;
}

CodeObject read_code_object(std::span<const std::byte> bytes, std::string_view file) {
  const Image image(bytes, file);
  const Elf elf = common::read_elf(image, code_object_kind);
  CodeObject object;
  object.version = read_version(image, elf.header);
  const detail::AmdTarget target = read_target(image, elf.header.e_flags, object.version);
  object.target = text_of(target);

  Metadata metadata = read_metadata(image, metadata_of(image, elf));
  if (detail::parse_amd_target(metadata.target) != target)
    image.refuse("its header says {}, and its metadata {}", object.target, quote(metadata.target));
  if (metadata.kernels.empty()) image.refuse("it has no kernel");
  KernelCheck(image, elf, metadata.kernels).run();
  object.kernels = std::move(metadata.kernels);
  return object;
}

void check_target(const CodeObject& object, std::string_view device_target, std::string_view file) {
  const detail::AmdFit fit = detail::fit_amd_target(object.target, device_target);
  if (!fit.fits()) detail::fail(ErrorCode::no_matching_image, "image {}: {}", quote(file), fit.reason);
}

}  // namespace kdart::hip
