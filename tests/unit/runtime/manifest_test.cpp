#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "kdart/kernel_set.h"
#include "tests/support/expect_error.h"

namespace kdart::test {
namespace {

using nlohmann::json;

// A manifest that uses every field.
json good() {
  return json::parse(R"({
    "schema": 1, "set": "kda", "version": "0.1.0", "backend": "cuda", "toolchain": {"nvcc": "12.9"},
    "kernels": [
      {"name": "gate", "argument_bytes": 20,
       "args": [{"name": "f", "kind": "ptr", "offset": 0, "size": 8}, {"name": "n", "kind": "u32", "offset": 8, "size": 4},
                {"name": "map", "kind": "bytes", "offset": 12, "size": 8}]},
      {"name": "fill", "args": [], "argument_bytes": 0}],
    "images": [
      {"file": "kda.sm_90a.cubin", "target": "sm_90a", "format": "cubin", "bytes": 10,
       "sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
       "kernels": [{"name": "gate", "symbol": "kda_gate", "static_shared_bytes": 64, "min_threads": 32, "max_threads": 256,
                    "subgroup": 32, "registers": 40, "tunables": {"v_per_block": 16}}]},
      {"file": "kda.ptx", "target": "sm_80", "format": "ptx", "ptx_isa": 78, "bytes": 4294967296,
       "sha256": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
       "kernels": [{"name": "fill", "symbol": "kda_fill", "static_shared_bytes": 0}]},
      {"file": "kda.spv", "target": "spv1.5", "format": "spirv", "capabilities": ["Shader", "Int64"], "bytes": 1,
       "sha256": "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff", "kernels": []}]})");
}

Manifest parse(const json& document) {
  return Manifest::parse(document.dump(), "test.json");
}

// What `change` makes of a good manifest is refused, and the message has the file's name and every word.
void refuse(const std::function<void(json&)>& change, std::initializer_list<std::string_view> words,
            ErrorCode code = ErrorCode::invalid_argument) {
  json document = good();
  change(document);
  const std::string message = expect_error(code, words, [&] { static_cast<void>(parse(document)); });
  INFO(message);
  CHECK(message.find("test.json") != std::string::npos);
}

TEST_CASE("a manifest is read field for field", "[runtime][manifest]") {
  const Manifest manifest = parse(good());
  CHECK(manifest.set == "kda");
  CHECK(manifest.version == "0.1.0");
  CHECK(manifest.backend == "cuda");
  CHECK(manifest.toolchain.at("nvcc") == "12.9");
  REQUIRE(manifest.kernels.size() == 2);
  CHECK(manifest.kernels[0].name == "gate");
  CHECK(manifest.kernels[0].argument_bytes == 20);
  REQUIRE(manifest.kernels[0].args.size() == 3);
  CHECK(manifest.kernels[0].args[2].name == "map");
  CHECK(manifest.kernels[0].args[2].kind == ArgKind::bytes);
  CHECK(manifest.kernels[0].args[2].offset == 12);
  CHECK(manifest.kernels[0].args[2].size == 8);
  REQUIRE(manifest.images.size() == 3);
  const ManifestImage& image = manifest.images[0];
  CHECK(image.file == "kda.sm_90a.cubin");
  CHECK(image.target == "sm_90a");
  CHECK(image.format == ImageFormat::cubin);
  CHECK(image.bytes == 10);
  CHECK(image.sha256.substr(0, 16) == "0123456789abcdef");
  REQUIRE(image.kernels.size() == 1);
  CHECK(image.kernels[0].symbol == "kda_gate");
  CHECK(image.kernels[0].static_shared_bytes == 64);
  CHECK(image.kernels[0].min_threads == 32);
  CHECK(image.kernels[0].max_threads == 256);
  CHECK(image.kernels[0].subgroup == 32);
  CHECK(image.kernels[0].registers == 40U);
  CHECK(image.kernels[0].tunables.at("v_per_block") == 16);
  CHECK(manifest.images[1].ptx_isa == 78);
  CHECK_FALSE(manifest.images[1].kernels[0].registers.has_value());
  CHECK(manifest.images[1].kernels[0].max_threads == 0);
  CHECK(manifest.images[2].capabilities == std::vector<std::string>{"Shader", "Int64"});
}

TEST_CASE("every required field is asked for and no other may stand there", "[runtime][manifest]") {
  const std::vector<std::pair<std::string, std::vector<std::string>>> objects{
      {"", {"schema", "set", "version", "backend", "toolchain", "kernels", "images"}},
      {"/kernels/0", {"name", "args", "argument_bytes"}},
      {"/kernels/0/args/1", {"name", "kind", "offset", "size"}},
      {"/images/0", {"file", "target", "format", "bytes", "sha256", "kernels"}},
      {"/images/0/kernels/0", {"name", "symbol", "static_shared_bytes"}}};
  for (const auto& [path, fields] : objects) {
    const json::json_pointer at(path);
    for (const std::string& field : fields) {
      refuse([&](json& m) { m.at(at).erase(field); }, {"'" + field + "'"});
      refuse([&](json& m) { m.at(at)[field] = nullptr; }, {field, "null"});
    }
    refuse([&](json& m) { m.at(at)["surprise"] = 1; }, {"unknown field 'surprise'"});
    refuse([&](json& m) { m.at(at) = 5; }, {"5", "an object"});
  }
}

TEST_CASE("a newer schema is told apart from a wrong one", "[runtime][manifest]") {
  refuse([](json& m) { m["schema"] = 2; }, {"schema 2", "reads 1"}, ErrorCode::unsupported_version);
  refuse([](json& m) { m = json{{"schema", 7}, {"new", "fields"}}; }, {"schema 7"}, ErrorCode::unsupported_version);
  for (const json& wrong : {json(0), json(-1), json(1.0), json("1")}) {
    refuse([&](json& m) { m["schema"] = wrong; }, {"schema", wrong.dump()});
  }
}

TEST_CASE("a file name is plain", "[runtime][manifest]") {
  for (const char* name : {"../kda.so", "a/b", "/etc/passwd", "..", ".", "a\\b", "", "a\nb"}) {
    refuse([&](json& m) { m["images"][0]["file"] = name; }, {"images[0].file"});
  }
  refuse([](json& m) { m["images"][0]["file"] = std::string("a\0b", 3); }, {"images[0].file"});
  refuse([](json& m) { m["images"][0]["file"] = std::string(256, 'a'); }, {"images[0].file", "255"});
  json document = good();
  document["images"][0]["file"] = "..hidden..name";
  CHECK_NOTHROW(static_cast<void>(parse(document)));
}

TEST_CASE("a hash is 64 lower-case hexadecimal digits", "[runtime][manifest]") {
  for (const std::string& hash :
       {std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'A'), std::string(64, 'g')}) {
    refuse([&](json& m) { m["images"][0]["sha256"] = hash; }, {"images[0].sha256", "64 lower-case"});
  }
}

TEST_CASE("numbers are whole, not negative and in range", "[runtime][manifest]") {
  for (const json& wrong : {json(-1), json(1.5), json("8"), json(4294967296), json(true), json(1e300)}) {
    refuse([&](json& m) { m["images"][0]["kernels"][0]["static_shared_bytes"] = wrong; }, {"static_shared_bytes"});
    refuse([&](json& m) { m["images"][0]["kernels"][0]["registers"] = wrong; }, {"registers"});
    refuse([&](json& m) { m["images"][0]["kernels"][0]["tunables"]["v_per_block"] = wrong; }, {"v_per_block"});
  }
  for (const json& wrong : {json(0), json(4294967297), json(-5)}) {
    refuse([&](json& m) { m["images"][0]["bytes"] = wrong; }, {"images[0].bytes", "4294967296"});
  }
  refuse([](json& m) { m["images"][0]["kernels"][0]["min_threads"] = 257; }, {"min_threads", "257", "256"});
}

TEST_CASE("arguments lie in order, at their size and alignment, inside the block", "[runtime][manifest]") {
  const auto arg = [](json& m, std::size_t i) -> json& { return m["kernels"][0]["args"][i]; };
  refuse([&](json& m) { arg(m, 0)["kind"] = "i64"; }, {"kernels[0].args[0].kind", "i64"});
  refuse([&](json& m) { arg(m, 0)["size"] = 4; }, {"kernels[0].args[0].size", "8"});
  refuse([&](json& m) { arg(m, 1)["offset"] = 10; }, {"kernels[0].args[1].offset", "multiple of 4"});
  refuse([&](json& m) { arg(m, 1)["offset"] = 4; }, {"kernels[0].args[1].offset", "from 8 on"});
  refuse([&](json& m) { arg(m, 2)["size"] = 257; }, {"args[2].size", "256"});
  refuse([&](json& m) { arg(m, 2)["offset"] = 257; }, {"args[2].offset", "256"});
  refuse([&](json& m) { m["kernels"][0]["argument_bytes"] = 19; }, {"kernels[0].argument_bytes", "20"});
  refuse([&](json& m) { m["kernels"][0]["argument_bytes"] = 257; }, {"kernels[0].argument_bytes", "256"});
  refuse(
      [&](json& m) {
        json& args = m["kernels"][1]["args"];
        for (int i = 0; i < 33; ++i) {
          args.push_back({{"name", "a" + std::to_string(i)}, {"kind", "u32"}, {"offset", 4 * i}, {"size", 4}});
        }
        m["kernels"][1]["argument_bytes"] = 132;
      },
      {"kernels[1].args[32]", "32 arguments"});
}

TEST_CASE("names stand there once", "[runtime][manifest]") {
  refuse([](json& m) { m["kernels"][1]["name"] = "gate"; }, {"kernels[1].name", "gate", "twice"});
  refuse([](json& m) { m["kernels"][0]["args"][1]["name"] = "f"; }, {"args[1].name", "twice"});
  refuse([](json& m) { m["images"][1]["file"] = "kda.sm_90a.cubin"; }, {"images[1].file", "twice"});
  refuse([](json& m) { m["images"][0]["kernels"].push_back(m["images"][0]["kernels"][0]); },
         {"kernels[1].name", "twice"});
  refuse([](json& m) { m["images"][2]["capabilities"].push_back("Int64"); }, {"capabilities[2]", "twice"});
  refuse(
      [](json& m) {
        m["images"].push_back(m["images"][0]);
        m["images"][3]["file"] = "other.cubin";
      },
      {"images[3].target", "sm_90a"});
  json two_isas = good();
  two_isas["images"].push_back(two_isas["images"][1]);
  two_isas["images"][3]["file"] = "other.ptx";
  two_isas["images"][3]["ptx_isa"] = 80;
  CHECK_NOTHROW(static_cast<void>(parse(two_isas)));
}

TEST_CASE("an image names only kernels that are described", "[runtime][manifest]") {
  refuse([](json& m) { m["images"][0]["kernels"][0]["name"] = "stranger"; }, {"images[0].kernels[0].name", "stranger"});
}

TEST_CASE("fields of one format stand in no other", "[runtime][manifest]") {
  refuse([](json& m) { m["images"][0]["ptx_isa"] = 78; }, {"images[0].ptx_isa", "cubin"});
  refuse([](json& m) { m["images"][1].erase("ptx_isa"); }, {"images[1]", "ptx_isa"});
  refuse([](json& m) { m["images"][1]["ptx_isa"] = 7; }, {"ptx_isa", "7"});
  refuse([](json& m) { m["images"][0]["capabilities"] = json::array(); }, {"images[0].capabilities", "cubin"});
  refuse([](json& m) { m["images"][0]["format"] = "exe"; }, {"images[0].format", "exe", "spirv"});
}

TEST_CASE("text that is no manifest at all is refused", "[runtime][manifest]") {
  const auto refuse_text = [](const std::string& text, std::initializer_list<std::string_view> words) {
    expect_error(ErrorCode::invalid_argument, words, [&] { static_cast<void>(Manifest::parse(text, "test.json")); });
  };
  const std::string text = good().dump();
  refuse_text("", {"test.json"});
  refuse_text("[]", {"an object"});
  refuse_text("null", {"an object"});
  refuse_text(text + "x", {"test.json", "JSON"});
  refuse_text("{\"schema\": 1, \"schema\": 1}", {"schema", "twice"});
  refuse_text(std::string(100, '[') + std::string(100, ']'), {"nests"});
  refuse_text(std::string((std::size_t{16} << 20) + 1, ' '), {"bytes"});
  for (std::size_t length = 0; length < text.size(); length += 7) refuse_text(text.substr(0, length), {"test.json"});
  // A value that is itself long does not make a long message.
  json document = good();
  document["images"][0]["format"] = std::string(100'000, 'x');
  CHECK(expect_error(ErrorCode::invalid_argument, {"format"}, [&] { static_cast<void>(parse(document)); }).size() <
        500);
}

TEST_CASE("formats and kinds have the names of the manifest", "[runtime][manifest]") {
  CHECK(to_string(ImageFormat::elf_shared) == "elf_shared");
  CHECK(to_string(ImageFormat::code_object) == "code_object");
  CHECK(to_string(ArgKind::ptr) == "ptr");
  CHECK(to_string(ArgKind::bytes) == "bytes");
  CHECK(to_string(static_cast<ArgKind>(77)) == "unknown");
}

}  // namespace
}  // namespace kdart::test
