// Offload bundles: which code object a device gets, and what is refused.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/hip/code_object.h"
#include "kdart/error.h"
#include "tests/support/fenced.h"
#include "tests/unit/hip/made_code_object.h"

namespace kdart::test {
namespace {

using hip::BundleEntry;
using hip::find_code_object;
using hip::read_bundle;

struct MadeEntry {
  std::string id;
  std::string code;
  std::uint64_t offset = 0, size = 0;  // 0: where and what it is
};

const std::string triple = "amdgcn-amd-amdhsa--";

MadeEntry hip_entry(const std::string& target) {
  return {"hipv4-" + triple + target, "code for " + target};
}
const MadeEntry host{"host-x86_64-unknown-linux--", ""};

// The magic, the table, and the code of each.
Bytes made_bundle(std::vector<MadeEntry> entries) {
  std::uint64_t at = 32;
  for (const MadeEntry& entry : entries) at += 24 + entry.id.size();
  Bytes table = bytes_of("__CLANG_OFFLOAD_BUNDLE__"), code;
  append(table, std::uint64_t{entries.size()});
  for (MadeEntry& entry : entries) {
    append(table, entry.offset != 0 ? entry.offset : at);
    append(table, entry.size != 0 ? entry.size : std::uint64_t{entry.code.size()});
    append(table, std::uint64_t{entry.id.size()});
    append(table, bytes_of(entry.id));
    append(code, bytes_of(entry.code));
    at += entry.code.size();
  }
  append(table, code);
  return table;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <class Read>
std::pair<ErrorCode, std::string> error_from(const Read& read) {
  try {
    static_cast<void>(read());
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::driver_error, "no error"};
}

// Of read_bundle(), without the file's name.
std::string refusal_of(std::span<const std::byte> bytes) {
  const auto [code, what] = error_from([&] { return read_bundle(bytes, "made.hipfb"); });
  if (what == "no error") return "";
  CHECK(code == ErrorCode::invalid_image);
  const std::string start = "image 'made.hipfb': ";
  REQUIRE(what.starts_with(start));
  return what.substr(start.size());
}

std::string found(const std::vector<std::string>& targets, std::string_view device) {
  std::vector<MadeEntry> entries{host};
  for (const std::string& target : targets) entries.push_back(hip_entry(target));
  const Bytes bundle = made_bundle(entries);
  return text_of(find_code_object(bundle, device, "made.hipfb"));
}

}  // namespace

TEST_CASE("a bundle holds its code for AMD GPUs and the host's is left out", "[hip][no-device]") {
  const Bytes bundle = made_bundle({host,
                                    hip_entry("gfx90a:sramecc+:xnack-"),
                                    {"hip-" + triple + "gfx1100", "as older compilers name it"},
                                    {"hipv4-amdgcn-amd-amdhsa-unknown-gfx942", "and newer ones"},
                                    {"openmp-" + triple + "gfx942", "for OpenMP"},
                                    {"hip-spirv64-amd-amdhsa--amdgcnspirv", "not for one GPU"}});
  const std::vector<BundleEntry> entries = read_bundle(bundle, "made.hipfb");
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].target == "gfx90a:sramecc+:xnack-");
  CHECK(text_of(entries[0].bytes) == "code for gfx90a:sramecc+:xnack-");
  CHECK(entries[1].target == "gfx1100");
  CHECK(text_of(entries[1].bytes) == "as older compilers name it");
  CHECK(entries[2].target == "gfx942");
  CHECK(text_of(entries[2].bytes) == "and newer ones");
  CHECK(read_bundle(made_bundle({}), "made.hipfb").empty());
}

TEST_CASE("a device gets the code that suits it best", "[hip][no-device]") {
  const std::string device = "gfx942:sramecc+:xnack-";
  CHECK(found({"gfx90a", "gfx942"}, device) == "code for gfx942");
  CHECK(found({"gfx942", "gfx942:xnack-", "gfx942:xnack+"}, device) == "code for gfx942:xnack-");
  CHECK(found({"gfx942:sramecc+:xnack-", "gfx942:xnack-"}, device) == "code for gfx942:sramecc+:xnack-");
  CHECK(found({"gfx9-4-generic", "gfx942"}, device) == "code for gfx942");
  CHECK(found({"gfx9-4-generic:xnack-", "gfx90a"}, device) == "code for gfx9-4-generic:xnack-");
  CHECK(found({"gfx1100"}, "gfx1100") == "code for gfx1100");
}

TEST_CASE("a bundle without code for a device says what it holds", "[hip][no-device]") {
  const auto lacking = [](const std::vector<std::string>& targets, std::string_view device) {
    const auto [code, what] = error_from([&] { return found(targets, device); });
    CHECK(code == ErrorCode::no_matching_image);
    return what;
  };
  CHECK(
      lacking({"gfx90a", "gfx942:xnack+"}, "gfx942:sramecc+:xnack-") ==
      "image 'made.hipfb': it has no code for the device 'gfx942:sramecc+:xnack-'; it holds gfx90a (it is for gfx90a, "
      "and the device is gfx942), gfx942:xnack+ (it needs xnack on, which is off on the device)");
  CHECK(lacking({}, "gfx942") ==
        "image 'made.hipfb': it has no code for the device 'gfx942'; it holds nothing for AMD GPUs");
  CHECK(lacking({"gfx942"}, "sm_90").find("the device's target 'sm_90' is no AMD target") != std::string::npos);
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back("gfx" + std::to_string(10000 + i));
  const std::string list = lacking(many, "gfx942");
  CHECK(list.ends_with(" and 992 others"));
  CHECK(list.size() < 1000);
}

TEST_CASE("a code object alone is itself and what is no image is refused", "[hip][no-device]") {
  const Bytes object = MadeCodeObject().make();
  const auto whole = find_code_object(object, "gfx1100", "made.co");  // whether it suits is check_target's
  CHECK(whole.data() == object.data());
  CHECK(whole.size() == object.size());

  const auto refused = [](std::string_view text) {
    const Bytes bytes = bytes_of(text);
    const auto [code, what] = error_from([&] { return find_code_object(bytes, "gfx942", "made.co"); });
    CHECK(code == ErrorCode::invalid_image);
    return what;
  };
  const std::string neither = "image 'made.co': it is neither a code object nor an offload bundle";
  CHECK(refused("") == neither);
  CHECK(refused("\x7F"
                "EL") == neither);
  CHECK(refused("__CLANG_OFFLOAD_BUNDLE_") == neither);
  CHECK(
      refused("CCOB, and what follows") ==
      "image 'made.co': it is a compressed offload bundle, which is not read; --no-offload-compress makes a plain one");
}

TEST_CASE("the code in a bundle is the device's when it says so itself", "[hip][no-device]") {
  const auto object = hip::read_code_object(MadeCodeObject().make(), "made.co");
  hip::check_target(object, "gfx90a:sramecc+:xnack-", "made.co");
  const auto refused = [&](std::string_view device) {
    const auto [code, what] = error_from([&] {
      hip::check_target(object, device, "made.co");
      return 0;
    });
    CHECK(code == ErrorCode::no_matching_image);
    return what;
  };
  CHECK(refused("gfx1100") == "image 'made.co': it is for gfx90a, and the device is gfx1100");
  CHECK(refused("gfx90a:sramecc+:xnack+") == "image 'made.co': it needs xnack off, which is on on the device");
  CHECK(refused("gfx90a") == "image 'made.co': it needs xnack off, which is absent on the device");
}

TEST_CASE("a bundle whose parts are nowhere is refused by its message", "[hip][no-device]") {
  const std::string max = std::to_string(std::numeric_limits<std::uint64_t>::max());
  CHECK(refusal_of(bytes_of("no bundle")) == "it is no offload bundle");
  CHECK(refusal_of(bytes_of("__CLANG_OFFLOAD_BUNDLE__abc")) ==
        "the number of entries should be 8 bytes at 24, and the image has 27 bytes");

  Bytes counted = made_bundle({});
  counted[31] = std::byte{0xFF};
  CHECK(refusal_of(counted) == "an entry should be 8 bytes at 32, and the image has 32 bytes");

  MadeEntry entry = hip_entry("gfx90a");
  entry.offset = std::numeric_limits<std::uint64_t>::max();
  CHECK(refusal_of(made_bundle({entry})) ==
        "the entry 'hipv4-amdgcn-amd-amdhsa--gfx90a' should be 15 bytes at " + max + ", and the image has 102 bytes");
  entry = hip_entry("gfx90a");
  entry.size = std::numeric_limits<std::uint64_t>::max();
  CHECK(refusal_of(made_bundle({entry})) ==
        "the entry 'hipv4-amdgcn-amd-amdhsa--gfx90a' should be " + max + " bytes at 87, and the image has 102 bytes");

  Bytes long_id = made_bundle({hip_entry("gfx90a")});
  std::fill_n(long_id.begin() + 48, 8, std::byte{0xFF});
  CHECK(refusal_of(long_id) == "the target of an entry should be " + max + " bytes at 56, and the image has 102 bytes");
}

TEST_CASE("a bundle whose entries lie over others is refused", "[hip][no-device]") {
  MadeEntry second = hip_entry("gfx942");
  second.offset = 142 + 14;  // the last byte of the first one
  CHECK(refusal_of(made_bundle({hip_entry("gfx90a"), second})) ==
        "the entry 'hipv4-amdgcn-amd-amdhsa--gfx942' begins at 156, within what is before it");
  second.offset = 142 + 15;
  CHECK(refusal_of(made_bundle({hip_entry("gfx90a"), second})).empty());
  second.offset = 1;  // the table
  CHECK(refusal_of(made_bundle({hip_entry("gfx90a"), second})).ends_with(" begins at 1, within what is before it"));
}

TEST_CASE("a bundle with unclear targets is refused", "[hip][no-device]") {
  CHECK(refusal_of(made_bundle({hip_entry("gfx90a:xnack-:sramecc+"), hip_entry("gfx90a:sramecc+:xnack-")})) ==
        "it has two entries for gfx90a:sramecc+:xnack-");
  for (const std::string target : {"", "gfx", "gfx90a:", "gfx90a:tgsplit+", "gfx90a xnack"}) {
    CHECK(refusal_of(made_bundle({hip_entry(target)})) ==
          "its entry 'hipv4-amdgcn-amd-amdhsa--" + target + "' is for no AMD target");
  }
}

TEST_CASE("a bundle cut off or changed anywhere is read within its bytes or refused", "[hip][no-device]") {
  const Bytes whole = made_bundle({host, hip_entry("gfx90a:sramecc+"), hip_entry("gfx1100")});
  REQUIRE(refusal_of(whole).empty());
  const Fenced fenced(whole);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    if (refusal_of(fenced.first(whole, length)).empty()) FAIL("read with its first " << length << " bytes alone");
  }
  const Fenced changed(whole);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (unsigned value = 0; value < 256; ++value) {
      changed.bytes()[at] = std::byte{static_cast<std::uint8_t>(value)};
      if (!refusal_of(changed.bytes()).empty()) {
        ++refused;
        continue;
      }
      // What it holds lies within it.
      std::size_t sum = 0;
      for (const BundleEntry& entry : read_bundle(changed.bytes(), "made.hipfb")) {
        for (const std::byte byte : entry.bytes) sum += std::to_integer<std::size_t>(byte);
        CHECK(entry.target.size() < whole.size());
      }
      CHECK(sum < 256 * whole.size());
    }
    changed.bytes()[at] = whole[at];
  }
  CHECK(refused > 1000);
}

}  // namespace kdart::test
