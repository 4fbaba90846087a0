// ELF files whose parts lie over one another: what they cost is bounded by their bytes, not by products of them.
#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "backends/common/elf.h"
#include "backends/hip/code_object.h"
#include "kdart/error.h"
#include "tests/unit/hip/made_code_object.h"

namespace kdart::test {
namespace {

// Why it is refused; checks that this took well under what the product of its parts would take.
std::string quick_refusal_of(const Bytes& bytes) {
  const auto start = std::chrono::steady_clock::now();
  std::string text;
  try {
    static_cast<void>(hip::read_code_object(bytes, "made.co"));
  } catch (const Error& error) {
    text = error.what();
  }
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  return text.substr(text.find(": ") == std::string::npos ? 0 : text.find(": ") + 2);
}

// As many sections as a file may have, whose headers are those of one that has its place.
void repeat_header(MadeCodeObject& object, Elf64_Shdr header, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) object.sections.push_back({"", header, {}, 1});
  object.header.e_shnum = static_cast<Elf64_Half>(object.sections.size());
}

constexpr std::size_t many = 60'000, mebibyte = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("sections with one long name cost no more than their limit", "[hip][no-device]") {
  MadeCodeObject object;
  object.add(std::string(16'384, 'n'), SHT_NULL, {});
  object.place();
  repeat_header(object, object.sections.back().header, many);
  CHECK(quick_refusal_of(object.write()).empty());

  MadeCodeObject longer;
  longer.add(std::string(16 * mebibyte, 'n'), SHT_NULL, {});
  longer.place();
  repeat_header(longer, longer.sections.back().header, many);
  CHECK(quick_refusal_of(longer.write()) == "the name of a section has more than 16384 bytes");
}

TEST_CASE("symbols with one long name cost no more than their limit", "[hip][no-device]") {
  const auto with_names = [](std::size_t length) {
    MadeCodeObject object;
    object.symbols.resize(200'000);
    MadeSection& names = object.section(".dynstr");
    for (std::size_t i = 4; i < object.symbols.size(); ++i)
      object.symbols[i].st_name = static_cast<Elf64_Word>(names.bytes.size());
    names.bytes.resize(names.bytes.size() + length, std::byte{'n'});
    names.bytes.push_back(std::byte{0});
    return object.make();
  };
  CHECK(quick_refusal_of(with_names(16'384)).empty());
  CHECK(quick_refusal_of(with_names(16 * mebibyte)) == "the name of a symbol has more than 16384 bytes");
}

TEST_CASE("tables that lie over one another are read once", "[hip][no-device]") {
  MadeCodeObject symbols;
  symbols.symbols.resize(200'000);
  symbols.place();
  repeat_header(symbols, symbols.section(".dynsym").header, many);
  CHECK(quick_refusal_of(symbols.write()) == "its tables of symbols lie over one another");

  MadeCodeObject notes;
  notes.section(".note").bytes = made_note("other", 1, Bytes(4 * mebibyte));
  for (int i = 0; i < 100'000; ++i) append(notes.section(".note").bytes, made_note("other", 1, {}));
  notes.place();
  repeat_header(notes, notes.section(".note").header, many);
  CHECK(quick_refusal_of(notes.write()) == "its sections of notes lie over one another");
}

}  // namespace kdart::test
