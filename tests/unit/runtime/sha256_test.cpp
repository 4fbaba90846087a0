#include "core/runtime/sha256.h"

#include <catch2/catch_test_macros.hpp>
#include <span>
#include <string>

namespace kdart::detail {
namespace {

std::string hash_of(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span(text)));
}

// The examples of FIPS 180-4 and of NIST's "Examples with Intermediate Values".
TEST_CASE("SHA-256 gives the standard's digests", "[runtime][sha256]") {
  CHECK(hash_of("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hash_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hash_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                "mnopqrstnopqrstu") == "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(hash_of(std::string(1'000'000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 pads every length around a block's end rightly", "[runtime][sha256]") {
  // Digests of 0x00, 0x01, 0x02, ..: from Python's hashlib.
  const auto counted = [](std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i);
    return hash_of(text);
  };
  CHECK(counted(55) == "463eb28e72f82e0a96c0a4cc53690c571281131f672aa229e0d45ae59b598b59");
  CHECK(counted(56) == "da2ae4d6b36748f2a318f23e7ab1dfdf45acdc9d049bd80e59de82a60895f562");
  CHECK(counted(63) == "29af2686fd53374a36b0846694cc342177e428d1647515f078784d69cdb9e488");
  CHECK(counted(64) == "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108");
  CHECK(counted(65) == "4bfd2c8b6f1eec7a2afeb48b934ee4b2694182027e6d0fc075074f2fabb31781");
  CHECK(counted(119) == "da18797ed7c3a777f0847f429724a2d8cd5138e6ed2895c3fa1a6d39d18f7ec6");
  CHECK(counted(120) == "f52b23db1fbb6ded89ef42a23ce0c8922c45f25c50b568a93bf1c075420bbb7c");
  CHECK(counted(128) == "471fb943aa23c511f6f72f8d1652d9c880cfa392ad80503120547703e56a2be5");
}

}  // namespace
}  // namespace kdart::detail
