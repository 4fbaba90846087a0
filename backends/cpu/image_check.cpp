#include "backends/cpu/image_check.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "core/runtime/format.h"
#include "kdart/error.h"

namespace kdart::cpu {
namespace {

#if defined(__x86_64__)
constexpr std::uint16_t native_machine = EM_X86_64;
constexpr std::string_view native_machine_name = "x86-64";
#elif defined(__aarch64__)
constexpr std::uint16_t native_machine = EM_AARCH64;
constexpr std::string_view native_machine_name = "aarch64";
#endif
static_assert(std::endian::native == std::endian::little, "images are checked as little-endian");

// An image is code of a few hundred kilobytes; a segment that asks for more than this is a lie.
constexpr std::uint64_t max_memory_span = std::uint64_t{1} << 30;

class ImageCheck {
 public:
  ImageCheck(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  void run() {
    check_identity();
    check_header();
    read_segments();
    check_segments();
    check_sections();
    check_dynamic();
  }

 private:
  template <class... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (condition) return;
    throw Error(ErrorCode::invalid_image, detail::format("image '{}' is no shared object for this machine: {}", file_,
                                                         detail::format(format, std::forward<Args>(args)...)));
  }

  [[nodiscard]] bool inside(std::uint64_t offset, std::uint64_t size) const noexcept {
    return offset <= bytes_.size() && size <= bytes_.size() - offset;
  }

  template <class T>
  [[nodiscard]] T read(std::uint64_t offset) const noexcept {
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  void check_identity() {
    require(bytes_.size() >= sizeof(Elf64_Ehdr), "{} bytes are less than an ELF header ({})", bytes_.size(),
            sizeof(Elf64_Ehdr));
    header_ = read<Elf64_Ehdr>(0);
    const unsigned char* id = header_.e_ident;
    require(std::memcmp(id, ELFMAG, SELFMAG) == 0, "it does not start with ELF's magic number");
    require(id[EI_CLASS] == ELFCLASS64, "its class is {}, expected {} (64 bits)", id[EI_CLASS], ELFCLASS64);
    require(id[EI_DATA] == ELFDATA2LSB, "its byte order is {}, expected {} (little-endian)", id[EI_DATA], ELFDATA2LSB);
    require(id[EI_VERSION] == EV_CURRENT, "its ELF version is {}, expected {}", id[EI_VERSION], EV_CURRENT);
    require(id[EI_OSABI] == ELFOSABI_NONE || id[EI_OSABI] == ELFOSABI_GNU, "its system is {}, expected {} or {}",
            id[EI_OSABI], ELFOSABI_NONE, ELFOSABI_GNU);
    require(std::all_of(id + EI_ABIVERSION, id + EI_NIDENT, [](unsigned char c) { return c == 0; }),
            "the rest of its identification is not zero");
  }

  void check_header() const {
    require(header_.e_type == ET_DYN, "its type is {}, expected {} (shared object)", header_.e_type, ET_DYN);
    require(header_.e_machine == native_machine, "its machine is {}, expected {} ({})", header_.e_machine,
            native_machine, native_machine_name);
    require(header_.e_version == EV_CURRENT, "its version is {}, expected {}", header_.e_version, EV_CURRENT);
    require(header_.e_flags == 0, "its flags are {:#x}, expected 0", header_.e_flags);
    require(header_.e_ehsize == sizeof(Elf64_Ehdr), "its header has {} bytes, expected {}", header_.e_ehsize,
            sizeof(Elf64_Ehdr));
    require(header_.e_phentsize == sizeof(Elf64_Phdr), "its program headers have {} bytes, expected {}",
            header_.e_phentsize, sizeof(Elf64_Phdr));
    require(header_.e_phnum > 0, "it has no program headers");
    require(header_.e_phoff >= sizeof(Elf64_Ehdr) && header_.e_phoff % alignof(Elf64_Phdr) == 0 &&
                inside(header_.e_phoff, std::uint64_t{header_.e_phnum} * sizeof(Elf64_Phdr)),
            "{} program headers at {} do not fit its {} bytes", header_.e_phnum, header_.e_phoff, bytes_.size());
  }

  void read_segments() {
    for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
      segments_.push_back(read<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr)));
    }
  }

  void check_segments() const {
    std::uint64_t end = 0;  // of the loaded segments so far
    std::size_t dynamics = 0;
    bool plain_stack = false;
    for (const Elf64_Phdr& s : segments_) {
      require(s.p_type != PT_INTERP, "it asks for an interpreter, as a program does");
      if (s.p_type == PT_DYNAMIC) ++dynamics;
      if (s.p_type == PT_GNU_STACK) plain_stack = (s.p_flags & PF_X) == 0;
      if (s.p_filesz == 0 && s.p_memsz == 0) continue;  // a marker
      require(inside(s.p_offset, s.p_filesz), "a segment of {} bytes at {} does not fit its {} bytes", s.p_filesz,
              s.p_offset, bytes_.size());
      if (s.p_type == PT_LOAD) end = check_loaded_segment(s, end);
    }
    require(end > 0, "nothing in it is to be loaded");
    require(plain_stack, "it asks for an executable stack");
    require(dynamics == 1, "it has {} dynamic tables, expected 1", dynamics);
  }

  // `end` is that of the one before; returns its own.
  [[nodiscard]] std::uint64_t check_loaded_segment(const Elf64_Phdr& s, std::uint64_t end) const {
    require(s.p_filesz <= s.p_memsz, "a segment has {} bytes in the file and {} in memory", s.p_filesz, s.p_memsz);
    require(std::has_single_bit(s.p_align) && s.p_vaddr % s.p_align == s.p_offset % s.p_align,
            "a segment at {:#x} does not have its alignment of {}", s.p_vaddr, s.p_align);
    require(s.p_vaddr >= end && s.p_vaddr < max_memory_span && s.p_memsz <= max_memory_span - s.p_vaddr,
            "a segment of {} bytes at {:#x} is out of order or out of range", s.p_memsz, s.p_vaddr);
    return s.p_vaddr + s.p_memsz;
  }

  // dlopen ignores sections. A file cut short shows in them, since they come last, and so does a segment that is missing.
  void check_sections() const {
    if (header_.e_shoff == 0 && header_.e_shnum == 0) {
      require(header_.e_shstrndx == 0, "it names section {} and has none", header_.e_shstrndx);
      return;
    }
    require(header_.e_shentsize == sizeof(Elf64_Shdr), "its section headers have {} bytes, expected {}",
            header_.e_shentsize, sizeof(Elf64_Shdr));
    require(header_.e_shoff % alignof(Elf64_Shdr) == 0 &&
                inside(header_.e_shoff, std::uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr)),
            "{} section headers at {} do not fit its {} bytes", header_.e_shnum, header_.e_shoff, bytes_.size());
    require(header_.e_shstrndx < header_.e_shnum, "the names of its sections are in section {} of {}",
            header_.e_shstrndx, header_.e_shnum);
    const auto section = [this](std::uint64_t i) { return read<Elf64_Shdr>(header_.e_shoff + i * sizeof(Elf64_Shdr)); };
    require(section(0).sh_type == SHT_NULL, "its first section is not the empty one");
    require(is_name_table(section(header_.e_shstrndx)), "section {} does not hold the names of sections",
            header_.e_shstrndx);
    for (std::uint64_t i = 1; i < header_.e_shnum; ++i) {
      const Elf64_Shdr s = section(i);
      require(s.sh_type == SHT_NOBITS || inside(s.sh_offset, s.sh_size),
              "section {} of {} bytes at {} does not fit its {} bytes", i, s.sh_size, s.sh_offset, bytes_.size());
      const bool in_memory = (s.sh_flags & SHF_ALLOC) != 0 && (s.sh_flags & SHF_TLS) == 0;
      require(!in_memory || mapped(s.sh_addr, s.sh_size), "section {} of {} bytes at {:#x} is in no segment", i,
              s.sh_size, s.sh_addr);
    }
  }

  // The table of section names is a section that names itself so.
  [[nodiscard]] bool is_name_table(const Elf64_Shdr& s) const noexcept {
    constexpr std::string_view name(".shstrtab\0", 10);  // with its end
    return s.sh_type == SHT_STRTAB && inside(s.sh_offset, s.sh_size) && s.sh_name < s.sh_size &&
           s.sh_size - s.sh_name >= name.size() &&
           std::memcmp(bytes_.data() + s.sh_offset + s.sh_name, name.data(), name.size()) == 0;
  }

  // True when [address, address + size) lies in a loaded segment, its zeros included.
  [[nodiscard]] bool mapped(std::uint64_t address, std::uint64_t size) const noexcept {
    return std::any_of(segments_.begin(), segments_.end(), [&](const Elf64_Phdr& s) {
      return s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr <= s.p_memsz &&
             size <= s.p_memsz - (address - s.p_vaddr);
    });
  }

  // Where in the file [address, address + size) is loaded from; none when no segment has all of it.
  [[nodiscard]] std::optional<std::uint64_t> file_offset(std::uint64_t address, std::uint64_t size) const noexcept {
    for (const Elf64_Phdr& s : segments_) {
      if (s.p_type != PT_LOAD || address < s.p_vaddr) continue;
      const std::uint64_t into = address - s.p_vaddr;
      if (into <= s.p_filesz && size <= s.p_filesz - into) return s.p_offset + into;
    }
    return {};
  }

  // The entries before the end mark.
  [[nodiscard]] std::vector<Elf64_Dyn> dynamic_entries() const {
    const Elf64_Phdr& table =
        *std::find_if(segments_.begin(), segments_.end(), [](const Elf64_Phdr& s) { return s.p_type == PT_DYNAMIC; });
    const auto start = file_offset(table.p_vaddr, table.p_filesz);
    require(start == table.p_offset && table.p_filesz % sizeof(Elf64_Dyn) == 0,
            "its dynamic table of {} bytes at {:#x} is not loaded", table.p_filesz, table.p_vaddr);
    std::vector<Elf64_Dyn> entries;
    for (std::uint64_t at = 0; at < table.p_filesz; at += sizeof(Elf64_Dyn)) {
      entries.push_back(read<Elf64_Dyn>(table.p_offset + at));
      if (entries.back().d_tag != DT_NULL) continue;
      entries.pop_back();
      return entries;
    }
    require(false, "its dynamic table has no end");
    return entries;
  }

  void check_dynamic() const {
    constexpr std::array<Elf64_Sxword, 9> addresses{DT_SYMTAB, DT_HASH,    DT_GNU_HASH, DT_RELA, DT_JMPREL,
                                                    DT_VERSYM, DT_VERNEED, DT_INIT,     DT_FINI};
    std::uint64_t strings = 0;
    std::uint64_t string_bytes = 0;
    bool symbols = false;
    for (const Elf64_Dyn& entry : dynamic_entries()) {
      if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) string_bytes = entry.d_un.d_val;
      if (entry.d_tag == DT_SYMTAB) symbols = true;
      if (std::find(addresses.begin(), addresses.end(), entry.d_tag) == addresses.end()) continue;
      require(file_offset(entry.d_un.d_ptr, 1).has_value(),
              "entry {:#x} of its dynamic table names {:#x}, which is not loaded", entry.d_tag, entry.d_un.d_ptr);
    }
    require(symbols, "it has no symbols");
    require(string_bytes > 0 && file_offset(strings, string_bytes).has_value(),
            "its names of {} bytes at {:#x} are not loaded", string_bytes, strings);
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_;
};

}  // namespace

void check_image(std::span<const std::byte> bytes, std::string_view file) {
  ImageCheck(bytes, file).run();
}

}  // namespace kdart::cpu
