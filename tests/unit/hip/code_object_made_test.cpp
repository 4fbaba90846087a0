// Code objects made by hand: what is read of one, and each refusal by its message.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "backends/hip/code_object.h"
#include "kdart/error.h"
#include "tests/support/fenced.h"
#include "tests/unit/hip/made_code_object.h"

namespace kdart::test {
namespace {

using hip::CodeObject;
using hip::CodeObjectArgument;
using hip::CodeObjectKernel;
using hip::read_code_object;
using nlohmann::json;

std::string refusal_of(std::span<const std::byte> bytes) {
  try {
    static_cast<void>(read_code_object(bytes, "made.co"));
    return "";
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_image);
    const std::string_view what = error.what();
    const std::string_view start = "image 'made.co': ";
    REQUIRE(what.starts_with(start));
    return std::string(what.substr(start.size()));
  }
}

using Spoil = std::function<void(MadeCodeObject&)>;

// What is said of the made code object after a test has been at its parts, before or after they have their places.
std::string spoiled(const Spoil& spoil) {
  MadeCodeObject object;
  spoil(object);
  return refusal_of(object.make());
}
std::string spoiled_in_place(const Spoil& spoil) {
  MadeCodeObject object;
  object.place();
  spoil(object);
  return refusal_of(object.write());
}
std::string spoiled_kernel(const std::function<void(json&)>& spoil) {
  return spoiled([&](MadeCodeObject& o) { spoil(o.kernel(0)); });
}
// A word of the first descriptor.
template <class T>
std::string spoiled_descriptor(std::size_t at, T value) {
  return spoiled([&](MadeCodeObject& o) { std::memcpy(o.section(".rodata").bytes.data() + at, &value, sizeof value); });
}

std::string target_read(std::uint32_t flags, std::string_view target) {
  MadeCodeObject object;
  object.header.e_flags = flags;
  object.header.e_ident[EI_ABIVERSION] = 4;
  object.metadata["amdhsa.target"] = "amdgcn-amd-amdhsa--" + std::string(target);
  return read_code_object(object.make(), "made.co").target;
}

}  // namespace

TEST_CASE("a code object made by hand is read", "[hip][no-device]") {
  const CodeObject object = read_code_object(MadeCodeObject().make(), "made.co");
  CHECK(object.target == "gfx90a:sramecc+:xnack-");
  CHECK(object.version == 5);
  REQUIRE(object.kernels.size() == 2);
  const CodeObjectKernel& scale = object.kernels[0];
  CHECK(object.find("scale") == &scale);
  CHECK(object.find("empty") == &object.kernels[1]);
  CHECK(object.find("scal") == nullptr);
  CHECK(scale.symbol == "scale");
  CHECK(scale.arguments == std::vector<CodeObjectArgument>{{0, 8}, {8, 4}});
  CHECK(scale.kernarg_bytes == 24);
  CHECK(scale.static_shared_bytes == 512);
  CHECK(scale.max_threads == 256);
  CHECK(scale.wave_size == 64);
  CHECK(scale.vgprs == 31);
  CHECK(scale.sgprs == 20);
  CHECK(scale.vgpr_spills == 2);
  CHECK(scale.sgpr_spills == 3);
  CHECK(scale.scratch_bytes == 16);
  CHECK(object.kernels[1].arguments.empty());
  CHECK(object.kernels[1].vgpr_spills == 0);
}

TEST_CASE("the target of a code object made by hand is read from its flags", "[hip][no-device]") {
  CHECK(target_read(0x053F, "gfx90a") == "gfx90a");  // both for any setting
  CHECK(target_read(0x0E4C, "gfx942:sramecc+:xnack-") == "gfx942:sramecc+:xnack-");
  CHECK(target_read(0x0B4C, "gfx942:sramecc-:xnack+") == "gfx942:sramecc-:xnack+");
  CHECK(target_read(0x0B4C, "gfx942:xnack+:sramecc-") == "gfx942:sramecc-:xnack+");  // in any order
  CHECK(target_read(0x0133, "gfx1010") == "gfx1010");
  CHECK(target_read(0x0041, "gfx1100") == "gfx1100");
  CHECK(target_read(0x0100015F, "gfx9-4-generic") == "gfx9-4-generic");
  CHECK(target_read(0x01000059, "gfx12-generic") == "gfx12-generic");
  // As newer compilers write the triple.
  MadeCodeObject newer;
  newer.metadata["amdhsa.target"] = "amdgcn-amd-amdhsa-unknown-gfx90a:sramecc+:xnack-";
  CHECK(read_code_object(newer.make(), "made.co").target == "gfx90a:sramecc+:xnack-");
}

TEST_CASE("a header that is none of a code object is refused by its message", "[hip][no-device]") {
  CHECK(refusal_of(Bytes(63)) == "the ELF header should be 64 bytes at 0, and the image has 63 bytes");
  CHECK(refusal_of(Bytes(64)) == "it is no ELF file, as a code object is");
  CHECK(spoiled([](auto& o) { o.header.e_machine = 190; }) ==
        "its ELF file is for machine 190, and a code object for 224");
  CHECK(spoiled([](auto& o) { o.header.e_ident[EI_OSABI] = 65; }) == "its OS ABI is 65, and a code object's 64");
  const std::string versions = ", and 4 to 6 are read";
  CHECK(spoiled([](auto& o) { o.header.e_ident[EI_ABIVERSION] = 1; }) == "it is a code object of version 3" + versions);
  CHECK(spoiled([](auto& o) { o.header.e_ident[EI_ABIVERSION] = 5; }) == "it is a code object of version 7" + versions);
  CHECK(spoiled([](auto& o) { o.header.e_type = ET_REL; }) ==
        "its ELF file is of type 1, and a linked code object of type 3");
  CHECK(spoiled([](auto& o) { o.header.e_flags = 0x7F; }) == "its processor has the unknown number 0x7f");
  CHECK(spoiled([](auto& o) { o.header.e_flags = 0x0100015F; }) ==
        "it is for gfx9-4-generic, and of version 5, which has no generic targets");
}

TEST_CASE("a header and metadata for two targets are refused", "[hip][no-device]") {
  CHECK(spoiled([](auto& o) { o.header.e_flags = 0x0D3F; }) ==
        "its header says gfx90a:sramecc+, and its metadata 'gfx90a:sramecc+:xnack-'");
  CHECK(spoiled([](auto& o) { o.metadata["amdhsa.target"] = "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-"; }) ==
        "its header says gfx90a:sramecc+:xnack-, and its metadata 'gfx942:sramecc+:xnack-'");
  CHECK(spoiled([](auto& o) { o.metadata["amdhsa.target"] = "amdgcn-mesa-mesa3d--gfx90a"; }) ==
        "its metadata: the document: amdhsa.target is 'amdgcn-mesa-mesa3d--gfx90a', which is none of an AMD GPU");
}

TEST_CASE("metadata that cannot be found is refused", "[hip][no-device]") {
  const std::string none = "it has 0 notes of kernel metadata, expected 1";
  CHECK(spoiled_in_place([](auto& o) {
          o.section(".note").bytes[8] = std::byte{33};  // the type
        }) == none);
  CHECK(spoiled_in_place([](auto& o) { o.section(".note").bytes[12] = std::byte{'a'}; }) == none);
  CHECK(spoiled_in_place([](auto& o) {
          o.section(".note").header.sh_type = SHT_PROGBITS;
          o.segments[2].p_type = PT_NULL;
        }) == none);
  // In a section alone, in a segment alone, and after another note.
  CHECK(spoiled_in_place([](auto& o) { o.segments[2].p_type = PT_NULL; }).empty());
  CHECK(spoiled_in_place([](auto& o) { o.section(".note").header.sh_type = SHT_PROGBITS; }).empty());
  CHECK(spoiled([](auto& o) { o.section(".note").bytes = made_note({"GNU\0", 4}, 3, Bytes(5)); }).empty());
}

TEST_CASE("metadata that could be read in two ways is refused", "[hip][no-device]") {
  CHECK(spoiled([](auto& o) { o.section(".note").bytes = made_note({"AMDGPU\0", 7}, 32, Bytes(8)); }) ==
        "it has 2 notes of kernel metadata, expected 1");
  // The segment's is another than the section's.
  CHECK(spoiled_in_place([](auto& o) {
          MadeSection& text = o.section(".text");
          const Bytes note = made_note({"AMDGPU\0", 7}, 32, bytes_of("elsewhere"));
          std::copy(note.begin(), note.end(), text.bytes.begin() + 256);
          o.segments[2].p_offset = text.header.sh_offset + 256;
          o.segments[2].p_filesz = note.size();
        }) == "it has 2 notes of kernel metadata, expected 1");
}

TEST_CASE("notes that would be read again and again are refused", "[hip][no-device]") {
  MadeCodeObject object;
  object.segments.resize(50);
  object.place();
  CHECK(refusal_of(object.write()).empty());
  for (std::size_t i = 3; i < object.segments.size(); ++i) object.segments[i] = object.segments[2];
  CHECK(refusal_of(object.write()) == "its segments of notes lie over one another");
}

TEST_CASE("a note that is cut off is refused", "[hip][no-device]") {
  CHECK(spoiled_in_place([](auto& o) {
          o.segments[2].p_filesz = 11;
          o.section(".note").header.sh_type = SHT_PROGBITS;
        }) == "a note is cut off");
  const auto note_word = [](std::size_t at, std::uint32_t value) {
    return spoiled_in_place(
        [&](MadeCodeObject& o) { std::memcpy(o.section(".note").bytes.data() + at, &value, sizeof value); });
  };
  CHECK(note_word(0, 0xFFFFFFFF).starts_with("a note has 4294967295 and "));
  CHECK(note_word(4, 0xFFFFFFFE).starts_with("a note has 7 and 4294967294 bytes, where "));
}

TEST_CASE("metadata that is no strict MessagePack is refused", "[hip][no-device]") {
  const auto document = [](const Bytes& text) { return spoiled([&](MadeCodeObject& o) { o.document = text; }); };
  const std::string start = "its metadata: ";
  CHECK(document(Bytes{}) == start + "it is no MessagePack at byte 1 of it");
  CHECK(document(Bytes(1, std::byte{0xC1})) == start + "it is no MessagePack at byte 1 of it");
  CHECK(document(Bytes(2, std::byte{0x80})) == start + "it is no MessagePack at byte 2 of it");  // and one byte more
  CHECK(document(Bytes(1, std::byte{0x80})) == start + "the document: it has no amdhsa.version");
  CHECK(document(Bytes(1, std::byte{0x90})) == start + "the document: it is no map");
  CHECK(document(Bytes(1'000'000, std::byte{0x91})) == start + "it nests deeper than 16 levels");
  CHECK(document(Bytes(1'000'000, std::byte{0x81})) == start + "it is no MessagePack at byte 2 of it");
  CHECK(document(bytes_of({"\xDD\xFF\xFF\xFF\xFF\xC0", 6})) == start + "it is no MessagePack at byte 7 of it");
  CHECK(document(bytes_of("\x82\xA1"
                          "a\x01\xA1"
                          "a\x02")) == start + "the key 'a' stands twice in one map");
  CHECK(document(bytes_of({"\x81\xA1"
                           "a\xC4\x00",
                           5})) == start + "it has a binary value");
  Bytes many = bytes_of({"\xDD\x00\x10\x00\x00", 5});
  many.resize(many.size() + (std::size_t{1} << 20U), std::byte{0xC0});
  CHECK(document(many) == start + "it has more than 1000000 values");
  CHECK(document(Bytes((std::size_t{4} << 20U) + 1)) == start + "it has 4194305 bytes, more than the limit of 4194304");
}

TEST_CASE("metadata that lacks something is refused", "[hip][no-device]") {
  const std::string kernel = "its metadata: kernel 'scale': ";
  for (const std::string_view key :
       {".symbol", ".kernarg_segment_size", ".kernarg_segment_align", ".group_segment_fixed_size",
        ".private_segment_fixed_size", ".wavefront_size", ".max_flat_workgroup_size", ".sgpr_count", ".vgpr_count"}) {
    CHECK(spoiled_kernel([&](json& k) { k.erase(std::string(key)); }) == kernel + "it has no " + std::string(key));
  }
  CHECK(spoiled_kernel([](json& k) { k.erase(".name"); }) == "its metadata: kernel 0: it has no .name");
  for (const std::string_view key : {".offset", ".size", ".value_kind"}) {
    CHECK(spoiled_kernel([&](json& k) { k[".args"][1].erase(std::string(key)); }) ==
          "its metadata: kernel 'scale': argument 1: it has no " + std::string(key));
  }
  for (const std::string_view key : {"amdhsa.version", "amdhsa.target", "amdhsa.kernels"}) {
    CHECK(spoiled([&](MadeCodeObject& o) { o.metadata.erase(std::string(key)); }) ==
          "its metadata: the document: it has no " + std::string(key));
  }
  CHECK(spoiled_kernel([](json& k) {
          for (const std::string key : {".sgpr_spill_count", ".vgpr_spill_count"}) k.erase(key);
        }).empty());
  CHECK(spoiled([](auto& o) { o.metadata["amdhsa.kernels"] = json::array(); }) == "it has no kernel");
}

TEST_CASE("metadata of the wrong kind is refused", "[hip][no-device]") {
  const std::string kernel = "its metadata: kernel 'scale': ";
  for (const json& value :
       {json(-1), json(1.5), json("8"), json(nullptr), json(std::uint64_t{1} << 32U), json(~0ULL)}) {
    CHECK(spoiled_kernel([&](json& k) { k[".vgpr_count"] = value; }) ==
          kernel + ".vgpr_count is no integer from 0 to 4294967295");
  }
  CHECK(spoiled_kernel([](json& k) { k[".max_flat_workgroup_size"] = 0; }) ==
        kernel + ".max_flat_workgroup_size is no integer from 1 to 4294967295");
  CHECK(spoiled_kernel([](json& k) { k[".args"] = 3; }) == kernel + ".args is no list");
  CHECK(spoiled_kernel([](json& k) { k[".args"][0] = 3; }) == kernel + "argument 0: it is no map");
  CHECK(spoiled_kernel([](json& k) { k[".name"] = 3; }) == "its metadata: kernel 0: .name is no string");
  CHECK(spoiled([](auto& o) { o.kernel(0) = 3; }) == "its metadata: kernel 0: it is no map");
  const std::string document = "its metadata: the document: ";
  CHECK(spoiled([](auto& o) { o.metadata["amdhsa.kernels"] = 3; }) == document + "amdhsa.kernels is no list");
  for (const json& version : {json::array({2, 0}), json::array({1}), json::array({"1", 0})}) {
    CHECK(spoiled([&](MadeCodeObject& o) { o.metadata["amdhsa.version"] = version; }) ==
          document + "amdhsa.version is not 1.x");
  }
  // A number in a signed format, as another writer may have it.
  CHECK(spoiled_kernel([](json& k) { k[".vgpr_count"] = json::number_integer_t{31}; }).empty());
}

TEST_CASE("metadata that contradicts itself is refused", "[hip][no-device]") {
  const std::string kernel = "its metadata: kernel 'scale': ";
  CHECK(spoiled_kernel([](json& k) { k[".symbol"] = "scale"; }) == kernel + ".symbol is 'scale', expected 'scale.kd'");
  CHECK(spoiled_kernel([](json& k) { k[".wavefront_size"] = 16; }) ==
        kernel + ".wavefront_size is 16, expected 32 or 64");
  CHECK(spoiled_kernel([](json& k) { k[".kernarg_segment_align"] = 12; }) ==
        kernel + ".kernarg_segment_align is 12, expected a power of two");
  CHECK(spoiled_kernel([](json& k) { k[".args"][1][".offset"] = 7; }) ==
        kernel + "argument 1: it is at 7, and the one before ends at 8");
  CHECK(spoiled_kernel([](json& k) { k[".args"][2][".size"] = 9; }) ==
        kernel + "argument 2: it ends at 25, and the kernel takes 24 bytes");
  CHECK(spoiled_kernel([](json& k) { k[".args"][2][".size"] = 0xFFFFFFFF; }) ==
        kernel + "argument 2: it ends at 4294967311, and the kernel takes 24 bytes");
  CHECK(spoiled([](auto& o) { o.kernel(1) = o.kernel(0); }) == "its metadata: two kernels have the name 'scale'");
}

TEST_CASE("a kernel without its descriptor is refused", "[hip][no-device]") {
  const std::string missing = "kernel 'scale' has no descriptor: the symbol is missing";
  CHECK(spoiled([](auto& o) { o.symbols[1].st_name = 0; }) == missing);
  CHECK(spoiled([](auto& o) { o.section(".dynsym").header.sh_type = SHT_PROGBITS; }).ends_with("symbol is missing"));
  CHECK(spoiled([](auto& o) { o.section(".dynsym").header.sh_type = SHT_SYMTAB; }).empty());
  const std::string start = "kernel 'scale': its descriptor ";
  CHECK(spoiled([](auto& o) { o.symbols[1].st_size = 63; }) == start + "has 63 bytes, expected 64");
  CHECK(spoiled_in_place([](auto& o) { o.symbols[1].st_shndx = SHN_ABS; }) == start + "is in no section");
  CHECK(spoiled_in_place([](auto& o) { o.symbols[1].st_shndx = SHN_UNDEF; }) == start + "is in no section");
  const std::string outside = start + "is not within its section '.rodata'";
  for (const std::int64_t by : {-1, 65, 1 << 20}) {
    CHECK(spoiled_in_place([&](MadeCodeObject& o) { o.symbols[1].st_value += static_cast<std::uint64_t>(by); }) ==
          outside);
  }
  CHECK(spoiled_in_place([](auto& o) { o.symbols[1].st_value = ~std::uint64_t{0}; }) == outside);
  CHECK(spoiled_in_place([](auto& o) { o.section(".rodata").header.sh_size = 63; }) == outside);
  CHECK(spoiled([](auto& o) { o.symbols[1].st_value = 1; }) != "");
  CHECK(spoiled([](auto& o) {
          o.symbols.push_back(o.symbols[1]);
          o.symbols.back().st_value = MadeCodeObject::empty_at;
        }).starts_with("kernel 'scale': its descriptor states argument bytes 0"));
  CHECK(spoiled([](auto& o) { o.symbols.push_back(o.symbols[1]); }).empty());
}

TEST_CASE("a descriptor in two places is refused", "[hip][no-device]") {
  CHECK(spoiled([](auto& o) {
          MadeSection& read_only = o.section(".rodata");
          Bytes copy(read_only.bytes.begin(), read_only.bytes.begin() + 64);
          const std::int64_t entry = 256 - 128;
          std::memcpy(copy.data() + 16, &entry, sizeof entry);
          append(read_only.bytes, copy);
          o.symbols.push_back(o.symbols[1]);
          o.symbols.back().st_value = 128;
        }) == "kernel 'scale' has two descriptors");
}

TEST_CASE("a descriptor that would not be loaded is refused", "[hip][no-device]") {
  const std::string unloaded = "kernel 'scale': its descriptor is in no loaded segment";
  CHECK(spoiled_in_place([](auto& o) { o.segments[0].p_filesz -= 65; }) == unloaded);
  CHECK(spoiled_in_place([](auto& o) { o.segments[0].p_type = PT_NULL; }) == unloaded);
  // Other bytes of the file would come to where it should be.
  CHECK(spoiled_in_place([](auto& o) {
          o.segments[0].p_offset += 64;
          o.segments[0].p_filesz -= 64;
        }) == unloaded);
}

TEST_CASE("segments that no loader takes are refused", "[hip][no-device]") {
  const std::string order = "its loaded segments are not apart and in order";
  CHECK(spoiled_in_place([](auto& o) { std::swap(o.segments[0], o.segments[1]); }) == order);
  CHECK(spoiled_in_place([](auto& o) { o.segments[1].p_vaddr = o.segments[0].p_memsz - 1; }) == order);
  CHECK(spoiled_in_place([](auto& o) { o.segments[1].p_memsz = ~std::uint64_t{0}; }) == order);
  CHECK(spoiled_in_place([](auto& o) { o.segments[1].p_memsz = 1; }) ==
        "a segment has 512 bytes in the file and 1 in memory");
}

TEST_CASE("relocations of what is not loaded are refused", "[hip][no-device]") {
  // One relocation, at an address that is that far into the loaded code.
  const auto relocation = [](std::int64_t into_code, std::uint64_t symbol, const Spoil& spoil = {}) {
    MadeCodeObject object;
    object.add(".rela.dyn", SHT_RELA, Bytes(sizeof(Elf64_Rela)));
    object.section(".rela.dyn").header.sh_link = 3;
    object.section(".rela.dyn").header.sh_entsize = sizeof(Elf64_Rela);
    object.place();
    object.segments[1].p_memsz = 1024;
    const Elf64_Rela made{object.segments[1].p_vaddr + static_cast<std::uint64_t>(into_code), symbol << 32U | 13U, 0};
    std::memcpy(object.section(".rela.dyn").bytes.data(), &made, sizeof made);
    if (spoil) spoil(object);
    return refusal_of(object.write());
  };
  CHECK(relocation(0, 0).empty());
  CHECK(relocation(1016, 3).empty());
  const std::string start = "a relocation of '.rela.dyn' is ";
  for (const std::int64_t bad :
       {std::int64_t{1017}, std::int64_t{1} << 40, std::int64_t{-8}, std::numeric_limits<std::int64_t>::min()}) {
    CHECK(relocation(bad, 0).starts_with(start + "at 0x"));
    CHECK(relocation(bad, 0).ends_with(", where nothing is loaded"));
  }
  CHECK(relocation(0, 4) == start + "to symbol 4 of 4");
  const auto header = [&](auto spoil) {
    return relocation(0, 0, [&](MadeCodeObject& o) { spoil(o.section(".rela.dyn").header); });
  };
  CHECK(header([](Elf64_Shdr& h) { h.sh_entsize = 16; }) == "its relocations '.rela.dyn' do not have 24 bytes each");
  CHECK(header([](Elf64_Shdr& h) { h.sh_size = 23; }) == "its relocations '.rela.dyn' do not have 24 bytes each");
  CHECK(header([](Elf64_Shdr& h) { h.sh_link = 8; }) == "its relocations '.rela.dyn' have their symbols in section 8");
  CHECK(header([](Elf64_Shdr& h) { h.sh_type = SHT_REL; }) == "its relocations '.rela.dyn' have no addends");
}

TEST_CASE("a descriptor that the metadata contradicts is refused", "[hip][no-device]") {
  const std::string start = "kernel 'scale': its descriptor ";
  CHECK(spoiled_descriptor(0, 513U) == start + "states static shared bytes 513, and the metadata 512");
  CHECK(spoiled_descriptor(4, 0U) == start + "states scratch bytes 0, and the metadata 16");
  CHECK(spoiled_descriptor(8, 32U) == start + "states argument bytes 32, and the metadata 24");
  CHECK(spoiled_descriptor(57, std::uint8_t{4}) == start + "states wave size 32, and the metadata 64");
}

TEST_CASE("a kernel whose entry is no code is refused", "[hip][no-device]") {
  const auto entry = [](std::int64_t from_descriptor) { return spoiled_descriptor(16, from_descriptor); };
  CHECK(entry(256).empty());
  CHECK(entry(512).empty());
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{260}, std::int64_t{768}, std::int64_t{-512},
                                 std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    CHECK(entry(bad).starts_with("kernel 'scale': its descriptor has its entry at 0x"));
    CHECK(entry(bad).ends_with(", where no code is"));
  }
  CHECK(spoiled_in_place([](auto& o) { o.segments[1].p_flags = PF_R; }).ends_with(", where no code is"));
}

TEST_CASE("every byte of a small code object may change and nothing but its bytes is read", "[hip][no-device]") {
  const Bytes whole = MadeCodeObject().make();
  const Fenced fenced(whole);
  REQUIRE(refusal_of(fenced.bytes()).empty());
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
      fenced.bytes()[at] = whole[at] ^ std::byte{static_cast<std::uint8_t>(flip)};
      if (!refusal_of(fenced.bytes()).empty()) ++refused;
    }
    fenced.bytes()[at] = whole[at];
  }
  CHECK(refused > 1000);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (refusal_of(fenced.first(whole, length)).empty()) FAIL("read with its first " << length << " bytes alone");
  }
}

}  // namespace kdart::test
