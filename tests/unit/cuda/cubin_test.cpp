// Reading cubins and PTX: what is right is understood, and nothing that is wrong gets to a driver.
#include "backends/cuda/cubin.h"

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "kdart/device_kernels.h"
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
std::string refusal_of(const Read& read) {
  try {
    read();
    return "";
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::invalid_image);
    return error.what();
  }
}

std::string refusal_of(const Bytes& bytes) {
  return refusal_of([&] { static_cast<void>(read_cubin(bytes, "some.cubin")); });
}

template <class T>
void put(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
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
    INFO(image.file);
    const Cubin cubin = read_cubin(kernels.files.at(image.file), image.file);
    CHECK("sm_" + std::to_string(cubin.capability) == image.target);
    CHECK(cubin.kernels.size() == image.kernels.size());
    for (const ImageKernel& kernel : image.kernels) {
      INFO(kernel.name);
      const cuda::CubinKernel* found = cubin.find(kernel.symbol);
      REQUIRE(found != nullptr);
      const ContractKernel& contract = *kernels::device_contract().find(kernel.name);
      REQUIRE(found->arguments.size() == contract.args.size());
      for (std::size_t i = 0; i < contract.args.size(); ++i) {
        CHECK(found->arguments[i] == cuda::CubinArgument{contract.args[i].offset, contract.args[i].size});
      }
    }
    ++read;
  }
  CHECK(read >= 4);
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
  CHECK(mentions(refusal_of(Bytes{}), "some.cubin"));
  CHECK(mentions(refusal_of(Bytes(100)), "no ELF file"));
  const auto changed = [](std::size_t offset, auto value) {
    Bytes bytes = some_cubin();
    put(bytes, offset, value);
    return refusal_of(bytes);
  };
  CHECK(mentions(changed(EI_CLASS, std::uint8_t{ELFCLASS32}), "64-bit"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_machine), std::uint16_t{EM_X86_64}), "machine 62"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shentsize), std::uint16_t{63}), "63 bytes"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shstrndx), std::uint16_t{60000}), "section 60000"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shoff), ~std::uint64_t{0}), "section header"));
  CHECK(mentions(changed(offsetof(Elf64_Ehdr, e_shoff), std::uint64_t{1} << 62), "a section header should be"));
  CHECK(changed(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{60000}) != "");
  CHECK(changed(offsetof(Elf64_Ehdr, e_shnum), std::uint16_t{0}) != "");
}

TEST_CASE("a cubin cut off anywhere is refused", "[cuda][cubin][no-device]") {
  const Bytes& whole = some_cubin();
  REQUIRE(refusal_of(whole).empty());
  for (std::size_t length = 0; length < whole.size(); length += length < 4096 ? 1 : 97) {
    INFO(length);
    CHECK(refusal_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))) != "");
  }
}

TEST_CASE("a cubin with a changed word is read within its bytes or refused", "[cuda][cubin][no-device]") {
  const Bytes& whole = some_cubin();
  Random random(7);
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Bytes bytes = whole;
    const std::size_t offset = random.bits() % (bytes.size() / 4) * 4;
    // Half of them in the headers, at both ends of the file, where each word says where something is.
    const std::size_t near = round % 4 == 0 ? offset % 64 : round % 4 == 1 ? bytes.size() - 4 - offset % 4096 : offset;
    put(bytes, near, round % 3 == 0 ? ~std::uint32_t{0} : static_cast<std::uint32_t>(random.bits()));
    if (!refusal_of(bytes).empty()) ++refused;
  }
  CHECK(refused > 100);
}

TEST_CASE("PTX is text with a version and a target", "[cuda][cubin][no-device]") {
  const auto refusal = [](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return refusal_of([&] { check_ptx(bytes, "some.ptx"); });
  };
  CHECK(refusal("//\n.version 9.0\n.target sm_80\n").empty());
  CHECK(mentions(refusal(std::string_view(".version 9.0\n.target sm_80\n\0", 28)), "NUL at 27"));
  CHECK(mentions(refusal("// nothing of the kind"), ".version"));
  CHECK(mentions(refusal(".version 9.0\n"), ".target"));
  CHECK(mentions(refusal(""), "some.ptx"));
}

}  // namespace kdart::test
