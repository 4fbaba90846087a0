// Reading cubins and PTX: what is right is understood, and nothing that is wrong gets to a driver.
#include "backends/cuda/cubin.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kdart/device_kernels.h"
#include "kdart/kda_kernels.h"
#include "tests/support/fenced.h"
#include "tests/support/random_values.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

using cuda::check_ptx;
using cuda::Cubin;
using cuda::read_cubin;

using Bytes = std::vector<std::byte>;

// The device tests' kernels for CUDA, as the build made them; skips where it made none.
TestKernels test_kernels() {
  try {
    return TestKernels::of("cuda");
  } catch (const std::runtime_error& error) {
    SKIP(error.what());
    throw;
  }
}

const Bytes& some_cubin() {
  static const Bytes bytes = [] {
    const TestKernels kernels = test_kernels();
    return kernels.files.at(kernels.manifest.images.at(0).file);
  }();
  return bytes;
}

template <class Read>
std::string refusal_from(const Read& read) {
  try {
    read();
    return "";
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::invalid_image);
    return error.what();
  }
}

std::string refusal_of(std::span<const std::byte> bytes) {
  return refusal_from([&] { static_cast<void>(read_cubin(bytes, "some.cubin")); });
}

// The set kda for CUDA as it lies in the library; skips where the build left it out.
std::shared_ptr<const KernelSet> embedded_set() {
  try {
    return KernelSet::embedded(kernels::kda_contract(), "cuda");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::no_matching_image);
    SKIP(error.what());
    throw;
  }
}

// The cubin is for the target that the manifest names, and has its kernels with the contract's arguments.
void check_against(const Contract& contract, const ManifestImage& image, const Bytes& bytes) {
  INFO(image.file);
  const Cubin cubin = read_cubin(bytes, image.file);
  CHECK("sm_" + std::to_string(cubin.capability) == image.target);
  CHECK(cubin.kernels.size() == image.kernels.size());
  for (const ImageKernel& kernel : image.kernels) {
    INFO(kernel.name);
    const cuda::CubinKernel* found = cubin.find(kernel.symbol);
    REQUIRE(found != nullptr);
    const ContractKernel& stated = *contract.find(kernel.name);
    REQUIRE(found->arguments.size() == stated.args.size());
    for (std::size_t i = 0; i < stated.args.size(); ++i)
      CHECK(found->arguments[i] == cuda::CubinArgument{stated.args[i].offset, stated.args[i].size});
  }
}

template <class T>
void put(std::span<std::byte> bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

// What is said of some_cubin() with one value changed.
std::string changed(std::size_t offset, auto value) {
  Bytes bytes = some_cubin();
  put(bytes, offset, value);
  return refusal_of(bytes);
}

// Of some_cubin(), the first section whose name begins so: where its header is, and the header.
std::pair<std::size_t, Elf64_Shdr> section_named(std::string_view start) {
  const Bytes& bytes = some_cubin();
  const auto get = [&bytes](std::size_t at, auto value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  const auto header = get(0, Elf64_Ehdr{});
  const auto names = get(header.e_shoff + header.e_shstrndx * sizeof(Elf64_Shdr), Elf64_Shdr{});
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const std::size_t at = header.e_shoff + i * sizeof(Elf64_Shdr);
    const auto section = get(at, Elf64_Shdr{});
    const auto* name = reinterpret_cast<const char*>(bytes.data() + names.sh_offset + section.sh_name);
    if (std::string_view(name).starts_with(start)) return {at, section};
  }
  FAIL("no section " << start);
  return {};
}

bool mentions(const std::string& text, std::string_view word) {
  return text.find(word) != std::string::npos;
}

}  // namespace

TEST_CASE("a cubin states its compute capability and the contract's arguments", "[cuda][cubin][no-device]") {
  const TestKernels kernels = test_kernels();
  int read = 0;
  for (const ManifestImage& image : kernels.manifest.images) {
    if (image.format != ImageFormat::cubin) continue;
    check_against(kernels::device_contract(), image, kernels.files.at(image.file));
    ++read;
  }
  CHECK(read >= 4);
}

TEST_CASE("so do the cubins of the embedded set, and its PTX is PTX", "[cuda][cubin][no-device]") {
  const auto set = embedded_set();
  int cubins = 0, texts = 0;
  for (const ManifestImage& image : set->manifest().images) {
    const Bytes bytes = set->read_image(image);
    if (image.format == ImageFormat::cubin) {
      check_against(set->contract(), image, bytes);
      ++cubins;
    } else {
      CHECK(refusal_from([&] { check_ptx(bytes, image.file); }).empty());
      CHECK(image.ptx_isa >= 70);
      ++texts;
    }
  }
  CHECK(cubins >= 1);
  CHECK(texts == 1);
}

TEST_CASE("the capability is where the layout's version has it", "[cuda][cubin][no-device]") {
  Bytes bytes = some_cubin();
  put(bytes, EI_ABIVERSION, std::uint8_t{7});
  put(bytes, offsetof(Elf64_Ehdr, e_flags), 0x005A055AU);
  CHECK(read_cubin(bytes, "old").capability == 90);
  put(bytes, EI_ABIVERSION, std::uint8_t{8});
  put(bytes, offsetof(Elf64_Ehdr, e_flags), 0x06006402U);
  CHECK(read_cubin(bytes, "new").capability == 100);
  put(bytes, EI_ABIVERSION, std::uint8_t{9});
  CHECK(read_cubin(bytes, "newer").capability == 0);
}

TEST_CASE("what is no cubin is refused with a reason", "[cuda][cubin][no-device]") {
  static_cast<void>(some_cubin());  // where there is none, the test is skipped here and not within a CHECK
  CHECK(mentions(refusal_of(Bytes{}), "some.cubin"));
  CHECK(mentions(refusal_of(Bytes(100)), "no ELF file"));
  CHECK(mentions(changed(EI_CLASS, std::uint8_t{ELFCLASS32}), "64-bit"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_machine), std::uint16_t{EM_X86_64}), "machine 62"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shentsize), std::uint16_t{63}), "63 bytes"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shstrndx), std::uint16_t{60000}), "section 60000"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0}), "section header"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shoff), std::uint64_t{1} << 62), "a section header should be"));
  CHECK(changed(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{60000}) != "");
  CHECK(changed(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0}) != "");
}

TEST_CASE("symbols without a name or a section are refused", "[cuda][cubin][no-device]") {
  const auto [at, table] = section_named(".symtab");
  REQUIRE(table.sh_size >= 2 * sizeof(Elf64_Sym));
  CHECK(mentions(changed(at + offsetof(Elf64_Shdr, sh_entsize), std::uint64_t{16}), "symbols have 16 bytes"));
  CHECK(mentions(changed(at + offsetof(Elf64_Shdr, sh_link), std::uint32_t{5000}), "section 5000"));
  const std::size_t second = table.sh_offset + sizeof(Elf64_Sym);
  CHECK(mentions(changed(second + offsetof(Elf64_Sym, st_name), std::uint32_t{0x7FFFFFFF}), "2147483647"));
  CHECK(mentions(changed(second + offsetof(Elf64_Sym, st_shndx), std::uint16_t{6000}), "section 6000"));
}

TEST_CASE("sections, names and segments that are not there are refused", "[cuda][cubin][no-device]") {
  Elf64_Ehdr header{};
  std::memcpy(&header, some_cubin().data(), sizeof header);
  const auto [at, names] = section_named(".shstrtab");
  CHECK(mentions(changed(at + offsetof(Elf64_Shdr, sh_size), std::uint64_t{1}), "of a table of 1 bytes"));
  // Its last byte is the end of the last name.
  CHECK(mentions(changed(names.sh_offset + names.sh_size - 1, std::byte{'x'}), "does not end"));
  CHECK(mentions(changed(section_named(".text.").first + offsetof(Elf64_Shdr, sh_offset), ~std::uint64_t{0} - 7),
                 "should be"));

  Bytes bytes = some_cubin();
  put(bytes, offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0} - 127);
  put(bytes, offsetof(Elf64_Ehdr, e_shstrndx), std::uint16_t{2});
  CHECK(mentions(refusal_of(bytes), "past all bytes"));

  REQUIRE(header.e_phnum > 0);
  CHECK(mentions(changed(header.e_phoff + offsetof(Elf64_Phdr, p_filesz), std::uint64_t{1} << 40),
                 "a segment should be"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_phoff), std::uint64_t{1} << 40), "a program header should be"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_phentsize), std::uint16_t{55}), "program headers have 55 bytes"));
}

TEST_CASE("a kernel's attributes that do not add up are refused", "[cuda][cubin][no-device]") {
  const auto [header_at, info] = section_named(".nv.info.kdart_affine");
  CHECK(mentions(changed(header_at + offsetof(Elf64_Shdr, sh_size), std::uint64_t{2}), "is cut off"));

  // The first parameter that stands there: 04 17, a size of 12, then an index, the ordinal and the offset.
  const Bytes& whole = some_cubin();
  const std::array<std::byte, 4> mark{std::byte{4}, std::byte{0x17}, std::byte{12}, std::byte{0}};
  const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(info.sh_offset);
  const auto end = begin + static_cast<std::ptrdiff_t>(info.sh_size);
  const auto found = std::search(begin, end, mark.begin(), mark.end());
  REQUIRE(found != end);
  const auto at = static_cast<std::size_t>(found - whole.begin());
  CHECK(mentions(changed(at + 2, std::uint16_t{60000}), "an attribute of 60000 bytes"));
  CHECK(mentions(changed(at + 2, std::uint16_t{8}), "described in 8 bytes"));
  CHECK(mentions(changed(at + 8, std::uint16_t{99}), "parameter 99 comes after"));
}

TEST_CASE("a cubin cut off anywhere is refused", "[cuda][cubin][no-device]") {
  const Bytes& whole = some_cubin();
  REQUIRE(refusal_of(whole).empty());
  const Fenced fenced(whole);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (refusal_of(fenced.first(whole, length)).empty()) FAIL("read with its first " << length << " bytes alone");
  }
}

TEST_CASE("a cubin with a changed word is read within its bytes or refused", "[cuda][cubin][no-device]") {
  const Bytes& whole = some_cubin();
  const Fenced fenced(whole);
  Random random(7);
  int refused = 0;
  const auto try_word = [&](std::size_t offset, std::uint32_t value) {
    std::uint32_t before = 0;
    std::memcpy(&before, whole.data() + offset, sizeof before);
    put(fenced.bytes(), offset, value);
    if (!refusal_of(fenced.bytes()).empty()) ++refused;
    put(fenced.bytes(), offset, before);
  };
  for (std::size_t offset = 0; offset + 4 <= whole.size(); offset += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, whole.data() + offset, sizeof word);
    for (const std::uint32_t value : std::array{~word, ~0U, 0U, word + 1, static_cast<std::uint32_t>(whole.size()) - 1,
                                                static_cast<std::uint32_t>(random.bits())}) {
      try_word(offset, value);
    }
  }
  CHECK(refused > 1000);
  CHECK(refusal_of(fenced.bytes()).empty());
}

TEST_CASE("PTX is text with a version and a target", "[cuda][cubin][no-device]") {
  const auto refusal = [](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return refusal_from([&] { check_ptx(bytes, "some.ptx"); });
  };
  CHECK(refusal("//\n.version 9.0\n.target sm_80\n").empty());
  CHECK(mentions(refusal(std::string_view(".version 9.0\n.target sm_80\n\0", 28)), "NUL at 27"));
  CHECK(mentions(refusal("// nothing of the kind"), ".version"));
  CHECK(mentions(refusal(".version 9.0\n"), ".target"));
  CHECK(mentions(refusal(""), "some.ptx"));
}

}  // namespace kdart::test
