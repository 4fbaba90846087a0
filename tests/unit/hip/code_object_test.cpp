// Code objects and bundles as compilers make them: the project's own set, and a small kernel for several targets.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/hip/code_object.h"
#include "kdart/error.h"
#include "kdart/kda_kernels.h"
#include "kdart/kernel_set.h"
#include "tests/support/fenced.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using hip::CodeObject;
using hip::CodeObjectArgument;
using hip::CodeObjectKernel;
using hip::read_code_object;

using Bytes = std::vector<std::byte>;

// The set kda for AMD GPUs; skips where the build made none.
std::shared_ptr<const KernelSet> kda_set() {
#ifdef KDART_TEST_HIP_SET
  return KernelSet::from_directory(kernels::kda_contract(), KDART_TEST_HIP_SET);
#else
  SKIP("this build has no kernel set for AMD GPUs");
  return nullptr;
#endif
}

Bytes file_bytes(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream);
  const std::vector<char> text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

// A test's kernel, as clang compiled it; skips as above.
Bytes compiled(const std::string& name) {
#ifdef KDART_TEST_HIP_COMPILED
  return file_bytes(std::string(KDART_TEST_HIP_COMPILED) + "/" + name);
#else
  SKIP("this build compiles nothing for AMD GPUs: no " << name);
  return {};
#endif
}

// Whether it is read; what it is refused with is invalid_image.
bool reads(std::span<const std::byte> bytes) {
  try {
    const CodeObject object = read_code_object(bytes, "some.co");
    REQUIRE_FALSE(object.kernels.empty());
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_image) FAIL(error.what());
    return false;
  }
}

// What the manifest knows of a kernel is what the code object states.
void check_kernel(const ContractKernel& contract, const ImageKernel& manifest, const CodeObjectKernel& kernel) {
  INFO(manifest.name);
  std::vector<CodeObjectArgument> expected;
  for (const auto& argument : contract.args) expected.push_back({argument.offset, argument.size});
  CHECK(kernel.arguments == expected);
  CHECK(kernel.kernarg_bytes >= contract.argument_bytes);
  CHECK(kernel.static_shared_bytes == manifest.static_shared_bytes);
  CHECK(kernel.max_threads == manifest.max_threads);
  CHECK(kernel.vgprs == manifest.registers);
  CHECK(kernel.sgprs > 0);
}

}  // namespace

TEST_CASE("the kernels of a code object have the contract's arguments", "[hip][no-device]") {
  const auto set = kda_set();
  REQUIRE(set->manifest().images.size() >= 2);
  for (const ManifestImage& image : set->manifest().images) {
    INFO(image.file);
    const CodeObject object = read_code_object(set->read_image(image), image.file);
    CHECK(object.target == image.target);
    CHECK(object.version == 4);
    CHECK(object.kernels.size() == image.kernels.size());
    CHECK(image.kernels.size() == set->contract().kernels.size());
    for (const ImageKernel& kernel : image.kernels) {
      const CodeObjectKernel* const found = object.find(kernel.symbol);
      REQUIRE(found != nullptr);
      check_kernel(*set->contract().find(kernel.name), kernel, *found);
      CHECK(found->wave_size == (object.target.starts_with("gfx9") ? 64 : 32));
    }
  }
}

TEST_CASE("a compiled code object states its target and its version", "[hip][no-device]") {
  struct Expected {
    std::string file, target;
    std::uint32_t version, wave_size;
  };
  const std::array expected{Expected{"v4.co", "gfx906:xnack+", 4, 64},
                            Expected{"v5.co", "gfx90a:sramecc+:xnack-", 5, 64},
                            Expected{"v6.co", "gfx1030", 6, 32},
                            Expected{"any.co", "gfx942", 5, 64},
                            Expected{"generic.co", "gfx11-generic", 6, 32},
                            Expected{"gfx12.co", "gfx1201", 5, 32}};
  for (const Expected& one : expected) {
    INFO(one.file);
    const CodeObject object = read_code_object(compiled(one.file), one.file);
    CHECK(object.target == one.target);
    CHECK(object.version == one.version);
    CHECK(object.kernels.size() == 2);
    const CodeObjectKernel* const kernel = object.find("kdart_compiled");
    REQUIRE(kernel != nullptr);
    // What the compiler adds is no argument of the kernel's.
    CHECK(kernel->arguments == std::vector<CodeObjectArgument>{{0, 8}, {8, 2}, {16, 8}, {24, 4}});
    CHECK(kernel->kernarg_bytes == (one.version == 4 ? 28 : 288));  // version 4 gets the block's size elsewhere
    CHECK(kernel->static_shared_bytes == 256);
    CHECK(kernel->scratch_bytes >= 128);
    CHECK(kernel->wave_size == one.wave_size);
    CHECK(object.find("kdart_nothing")->arguments.empty());
  }
}

TEST_CASE("a real code object cut off anywhere is refused", "[hip][no-device]") {
  const Bytes small = compiled("v5.co");
  const auto set = kda_set();
  for (const Bytes& whole : {small, set->read_image(set->manifest().images.at(0))}) {
    REQUIRE(reads(whole));
    const Fenced fenced(whole);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      if (reads(fenced.first(whole, length))) FAIL("read with its first " << length << " bytes alone");
    }
  }
}

TEST_CASE("a real code object with any changed byte is read within its bytes or refused", "[hip][no-device]") {
  const Bytes whole = compiled("v5.co");
  const Fenced fenced(whole);
  REQUIRE(reads(fenced.bytes()));
  Random random(5);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const std::uint64_t flip :
         {std::uint64_t{1} << random.bits() % 8, std::uint64_t{0xFF}, 1 + random.bits() % 255}) {
      fenced.bytes()[at] = whole[at] ^ std::byte{static_cast<std::uint8_t>(flip)};
      if (!reads(fenced.bytes())) ++refused;
    }
    fenced.bytes()[at] = whole[at];
  }
  CHECK(refused > 3000);
}

TEST_CASE("the set's code object with a changed byte before its code is read or refused", "[hip][no-device]") {
  const auto set = kda_set();
  const Bytes whole = set->read_image(set->manifest().images.at(0));
  const Fenced fenced(whole);
  Random random(6);
  int refused = 0;
  // Headers, metadata, symbols and descriptors come first, and tables last.
  constexpr std::size_t before = 18'000, after = 4'000;
  for (std::size_t at = 0; at < whole.size(); at += 1 + random.bits() % 7) {
    if (at >= before && at < whole.size() - after) at = whole.size() - after;
    fenced.bytes()[at] = whole[at] ^ std::byte{static_cast<std::uint8_t>(1 + random.bits() % 255)};
    if (!reads(fenced.bytes())) ++refused;
    fenced.bytes()[at] = whole[at];
  }
  CHECK(refused > 1000);
}

TEST_CASE("a bundle that the bundler made is read", "[hip][no-device]") {
#ifdef KDART_TEST_HIP_BUNDLE
  const Bytes bundle = file_bytes(KDART_TEST_HIP_BUNDLE);
  const auto entries = hip::read_bundle(bundle, "bundle.hipfb");
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].target == "gfx90a:sramecc+:xnack-");
  CHECK(entries[1].target == "gfx942");
  for (const std::string_view device : {"gfx90a:sramecc+:xnack-", "gfx942:sramecc+:xnack-"}) {
    const auto bytes = hip::find_code_object(bundle, device, "bundle.hipfb");
    CHECK(Bytes(bytes.begin(), bytes.end()) == compiled(device.starts_with("gfx942") ? "any.co" : "v5.co"));
    hip::check_target(read_code_object(bytes, "bundle.hipfb"), device, "bundle.hipfb");
  }
#else
  SKIP("clang-offload-bundler was not found");
#endif
}

}  // namespace kdart::test
