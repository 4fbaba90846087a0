#include "kdart/kernel_set.h"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/runtime/registry_table.h"
#include "kdart/backend.h"
#include "kdart/registry.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

// A folder that is gone with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kdart-set-XXXXXX").string();
    REQUIRE(::mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }

 private:
  std::filesystem::path path_;
};

std::string image_text() {
  const std::vector<std::byte> bytes = sample_image_bytes();
  return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

// manifest.json of a set with the kernel "extra" alone, in one image "image.so".
std::string folder_manifest(const std::string& set = "sample") {
  const Manifest sample = sample_manifest();
  return R"({"schema": 1, "set": ")" + set +
         R"(", "version": "1", "backend": "cpu", "toolchain": {},
             "kernels": [{"name": "extra", "args": [], "argument_bytes": 0}],
             "images": [{"file": "image.so", "target": "x86-64", "format": "elf_shared", "bytes": 100, "sha256": ")" +
         sample.images[0].sha256 +
         R"(", "kernels": [{"name": "extra", "symbol": "extra", "static_shared_bytes": 0}]}]})";
}

TEST_CASE("a folder is a kernel set, its images read when they are loaded", "[runtime][kernel_set]") {
  const TemporaryFolder folder;
  folder.write("manifest.json", folder_manifest());
  const auto set = KernelSet::from_directory(sample_contract(), folder.path());
  CHECK(set->origin() == folder.path().string());
  CHECK(set->manifest().version == "1");
  const auto gpu = FakeBackend::open();
  expect_error(ErrorCode::io_error, {"image.so"}, [&] { static_cast<void>(gpu->load(set)); });
  folder.write("image.so", image_text());
  const auto loaded = gpu->load(set);
  CHECK(loaded->find("extra"));
  CHECK(loaded->missing() == std::vector<std::string_view>{"scale", "tagged"});
}

TEST_CASE("an image that is not what the manifest says is corrupt", "[runtime][kernel_set]") {
  const TemporaryFolder folder;
  folder.write("manifest.json", folder_manifest());
  const auto set = KernelSet::from_directory(sample_contract(), folder.path());
  const auto gpu = FakeBackend::open();
  std::string text = image_text();
  for (const std::string& shorter : {std::string(), text.substr(0, 99)}) {
    folder.write("image.so", shorter);
    expect_error(ErrorCode::corrupt_image, {"image.so", std::to_string(shorter.size()), "100"},
                 [&] { static_cast<void>(gpu->load(set)); });
  }
  folder.write("image.so", text + "x");
  expect_error(ErrorCode::corrupt_image, {"101"}, [&] { static_cast<void>(gpu->load(set)); });
  for (std::size_t i = 0; i < text.size(); i += 9) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    folder.write("image.so", flipped);
    expect_error(ErrorCode::corrupt_image, {"SHA-256", set->manifest().images[0].sha256},
                 [&] { static_cast<void>(gpu->load(set)); });
  }
  CHECK(gpu->calls("load_image") == 0);
  folder.write("image.so", text);
  CHECK_NOTHROW(static_cast<void>(gpu->load(set)));
}

TEST_CASE("a folder without a manifest, or with another set's, is refused", "[runtime][kernel_set]") {
  const TemporaryFolder folder;
  const auto open = [&] { static_cast<void>(KernelSet::from_directory(sample_contract(), folder.path())); };
  expect_error(ErrorCode::io_error, {"manifest.json"}, open);
  std::filesystem::create_directory(folder.path() / "manifest.json");
  expect_error(ErrorCode::io_error, {"manifest.json"}, open);
  std::filesystem::remove(folder.path() / "manifest.json");
  folder.write("manifest.json", "");
  expect_error(ErrorCode::invalid_argument, {"manifest.json", "JSON"}, open);
  folder.write("manifest.json", folder_manifest("other"));
  expect_error(ErrorCode::invalid_argument, {"'other'", "'sample'"}, open);
}

TEST_CASE("a set that was left out of the build is named with those that are there", "[runtime][kernel_set]") {
  expect_error(ErrorCode::no_matching_image, {"'sample'", "'abacus'"},
               [] { static_cast<void>(KernelSet::embedded(sample_contract(), "abacus")); });
  static const Contract other{"no_such_set", 1, {}};
  for (const std::string_view backend : backend_names()) {
    expect_error(ErrorCode::no_matching_image, {"no_such_set"},
                 [&] { static_cast<void>(KernelSet::embedded(other, backend)); });
  }
}

TEST_CASE("every embedded set opens and each of its images is what its manifest says", "[runtime][kernel_set]") {
  for (const detail::EmbeddedKernelSet* files : detail::embedded_kernel_sets()) {
    const Contract contract{files->set, 1, {}};
    const auto set = KernelSet::embedded(contract, files->backend);
    CHECK(set->origin() == "embedded");
    CHECK(set->manifest().images.size() == files->image_count);
    for (const ManifestImage& image : set->manifest().images) CHECK(set->read_image(image).size() == image.bytes);
  }
}

TEST_CASE("loading gives each kernel of the image a handle", "[runtime][kernel_set]") {
  const auto gpu = FakeBackend::open();
  const auto loaded = gpu->load(sample_set());
  CHECK(loaded->get("scale") == loaded->find("scale"));
  CHECK(loaded->get("scale") != loaded->get("tagged"));
  CHECK(gpu->kernel_info(loaded->get("scale")).name == "scale");
  CHECK(gpu->kernel_info(loaded->get("scale")).contract == &sample_contract().kernels[0]);
  CHECK(loaded->image().target == "x86-64");
  CHECK(loaded->missing().empty());
  CHECK_FALSE(loaded->find("no such kernel"));
  CHECK_FALSE(loaded->find(std::string_view("scale\0", 6)));
}

TEST_CASE("a kernel that is not there is named with near ones", "[runtime][kernel_set]") {
  const auto gpu = FakeBackend::open();
  const auto loaded = gpu->load(sample_set());
  const std::string near = expect_error(ErrorCode::kernel_not_found, {"'scael'", "'scale'"},
                                        [&] { static_cast<void>(loaded->get("scael")); });
  CHECK(near.find("tagged") == std::string::npos);
  expect_error(ErrorCode::kernel_not_found, {"'scale_f32'", "it has 'scale'"},
               [&] { static_cast<void>(loaded->get("scale_f32")); });
  const std::string none =
      expect_error(ErrorCode::kernel_not_found, {"'zzz'"}, [&] { static_cast<void>(loaded->get("zzz")); });
  CHECK(none.find("it has") == std::string::npos);
  expect_error(ErrorCode::kernel_not_found, {"\\x00"},
               [&] { static_cast<void>(loaded->get(std::string_view("a\0b", 3))); });
  expect_error(ErrorCode::kernel_not_found, {}, [&] { static_cast<void>(loaded->get(std::string(100'000, 'x'))); });
  expect_error(ErrorCode::kernel_not_found, {}, [&] { static_cast<void>(loaded->tunable("zzz", "n", 1)); });
}

TEST_CASE("the best image is loaded, and a set without one says why for each", "[runtime][kernel_set]") {
  const auto gpu = FakeBackend::open();
  const auto loaded = gpu->load(sample_set(sample_manifest({"x86-64", "x86-64-v4", "x86-64-v2"})));
  CHECK(loaded->image().target == "x86-64-v2");
  REQUIRE(loaded->selection().rejected.size() == 2);
  expect_error(ErrorCode::no_matching_image,
               {"sample", "sample.x86-64-v4.so", "level 4", "sample.aarch64.so", "aarch64", "x86-64-v3"},
               [&] { static_cast<void>(gpu->load(sample_set(sample_manifest({"x86-64-v4", "aarch64"})))); });
  expect_error(ErrorCode::no_matching_image, {"no images"},
               [&] { static_cast<void>(gpu->load(sample_set(sample_manifest({})))); });
  expect_error(ErrorCode::invalid_argument, {"null"}, [&] { static_cast<void>(gpu->load(nullptr)); });
}

TEST_CASE("a manifest whose layout differs from the contract is corrupt, named to the argument",
          "[runtime][kernel_set]") {
  const auto gpu = FakeBackend::open();
  const auto refuse = [&](const std::function<void(Manifest&)>& change, std::initializer_list<std::string_view> words) {
    Manifest manifest = sample_manifest();
    change(manifest);
    expect_error(ErrorCode::corrupt_image, words, [&] { static_cast<void>(gpu->load(sample_set(manifest))); });
  };
  refuse([](Manifest& m) { m.kernels[0].args.pop_back(); }, {"'scale'", "4 arguments", "5 in the contract"});
  refuse([](Manifest& m) { m.kernels[0].args[3].name = "m"; }, {"'scale'", "argument 4", "'m'", "'n'"});
  refuse([](Manifest& m) { m.kernels[0].args[3].kind = ArgKind::i32; }, {"argument 4", "i32", "u32"});
  refuse([](Manifest& m) { m.kernels[1].args[5].size = 64; }, {"'tagged'", "argument 6", "64 bytes", "128 bytes"});
  refuse([](Manifest& m) { m.kernels[0].args[4].offset = 32; }, {"argument 5", "offset 32", "offset 28"});
  refuse([](Manifest& m) { m.kernels[0].argument_bytes = 80; }, {"'scale'", "80 bytes", "32"});  // grew by 48 bytes
  refuse([](Manifest& m) { m.kernels.erase(m.kernels.begin()); }, {"'scale'", "not described"});
  CHECK(gpu->calls("load_image") == 0);
}

TEST_CASE("an image that states another layout itself is corrupt and unloaded again", "[runtime][kernel_set]") {
  const auto gpu = FakeBackend::open();
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> good{{0, 8}, {8, 8}, {16, 8}, {24, 4}, {28, 4}};
  gpu->stated["scale"].arguments = good;
  CHECK_NOTHROW(static_cast<void>(gpu->load(sample_set())));
  gpu->stated["scale"].arguments.pop_back();
  expect_error(ErrorCode::corrupt_image, {"sample.x86-64.so", "'scale'", "4 arguments", "5"},
               [&] { static_cast<void>(gpu->load(sample_set())); });
  gpu->stated["scale"].arguments = good;
  gpu->stated["scale"].arguments[3] = {24, 8};
  expect_error(ErrorCode::corrupt_image, {"'scale'", "argument 4 'n'", "8 bytes at offset 24", "4 bytes"},
               [&] { static_cast<void>(gpu->load(sample_set())); });
  CHECK(gpu->calls("load_image") == 3);
  CHECK(gpu->calls("unload_image") == 3);
}

TEST_CASE("a load that fails half-way leaves nothing behind", "[runtime][kernel_set]") {
  const auto gpu = FakeBackend::open();
  const int before = FakeBackend::live_objects();
  for (int nth = 1; nth <= 3; ++nth) {
    gpu->fail_call("get_kernel", Error(ErrorCode::invalid_image, "no such symbol"), nth);
    expect_error(ErrorCode::invalid_image, {"no such symbol"}, [&] { static_cast<void>(gpu->load(sample_set())); });
  }
  gpu->fail_call("load_image", Error(ErrorCode::invalid_image, "not an image"));
  expect_error(ErrorCode::invalid_image, {"not an image"}, [&] { static_cast<void>(gpu->load(sample_set())); });
  CHECK(FakeBackend::live_objects() == before);
  CHECK_NOTHROW(static_cast<void>(gpu->load(sample_set())));
}

TEST_CASE("kernels that the contract does not know are left out", "[runtime][kernel_set]") {
  Manifest manifest = sample_manifest();
  manifest.kernels.push_back({"stranger", {}, 0});
  manifest.images[0].kernels.push_back({.name = "stranger", .symbol = "s"});
  const auto gpu = FakeBackend::open();
  const auto loaded = gpu->load(sample_set(manifest));
  CHECK_FALSE(loaded->find("stranger"));
  CHECK(gpu->calls("get_kernel") == 3);
}

TEST_CASE("a loaded set keeps its backend, and its end unloads the image", "[runtime][kernel_set][lifetime]") {
  const int before = FakeBackend::live_objects();
  auto gpu = FakeBackend::open();
  FakeBackend* raw = gpu.get();
  auto first = gpu->load(sample_set());
  auto second = gpu->load(sample_set());
  CHECK(first->get("scale") != second->get("scale"));
  gpu.reset();
  first.reset();
  CHECK(raw->calls("unload_image") == 1);
  CHECK(raw->kernel_info(second->get("scale")).name == "scale");
  second.reset();
  CHECK(FakeBackend::live_objects() == before);
}

TEST_CASE("a thousand loads and unloads do not grow", "[runtime][kernel_set][lifetime]") {
  const auto gpu = FakeBackend::open();
  const auto set = sample_set();
  std::uint32_t highest = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto loaded = gpu->load(set);
    for (const char* name : {"scale", "tagged", "extra"}) highest = std::max(highest, loaded->get(name).index());
  }
  CHECK(highest == 2);
  CHECK(gpu->calls("unload_image") == 1000);
}

TEST_CASE("threads load the same set at once", "[runtime][kernel_set][tsan]") {
  const auto gpu = FakeBackend::open();
  const auto set = sample_set();
  std::vector<std::shared_ptr<LoadedSet>> loaded(8);
  std::vector<std::thread> threads;
  for (auto& slot : loaded) threads.emplace_back([&] { slot = gpu->load(set); });
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint32_t> handles;
  for (const auto& one : loaded) handles.insert(one->get("scale").index());
  CHECK(handles.size() == 8);
}

}  // namespace
}  // namespace kdart::test
