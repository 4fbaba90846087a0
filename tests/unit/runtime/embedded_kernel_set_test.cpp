#include "core/runtime/embedded_kernel_set.h"

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "core/runtime/registry_table.h"

namespace kdart::detail {

// tests/unit/CMakeLists.txt makes these with kdart_embed_kernel_set().
extern const EmbeddedKernelSet kernel_set_sample_test;
extern const EmbeddedKernelSet kernel_set_bare_test;

}  // namespace kdart::detail

namespace kdart::detail {

TEST_CASE("an embedded set holds its files byte for byte under their plain names", "[runtime][embedding]") {
  const EmbeddedKernelSet& set = kernel_set_sample_test;
  CHECK(set.set == "sample");
  CHECK(set.backend == "test");
  CHECK(set.manifest.name == "sample_manifest.json");
  CHECK(set.manifest.text() == "{\"set\": \"sample\"}\n");
  REQUIRE(set.image_files().size() == 2);
  CHECK(set.image_files()[0].name == "sample_image.txt");
  CHECK(set.image_files()[0].text() == "an image\n");
  CHECK(set.image_files()[0].bytes().size() == 9);
  CHECK(set.image_files()[1].name == "made_by_the_build.bin");
  CHECK(set.image_files()[1].text() == "made by the build\n");
}

TEST_CASE("an embedded set may have no image", "[runtime][embedding]") {
  CHECK(kernel_set_bare_test.manifest.size() == kernel_set_sample_test.manifest.size());
  CHECK(kernel_set_bare_test.image_files().empty());
}

TEST_CASE("the generated tables name each backend and each set once", "[runtime][registry]") {
  std::set<std::string> names;
  for (const BackendEntry& entry : backend_entries()) {
    CHECK(entry.factory != nullptr);
    CHECK(names.insert(std::string(entry.name)).second);
  }
  names.clear();
  for (const EmbeddedKernelSet* set : embedded_kernel_sets()) {
    REQUIRE(set != nullptr);
    CHECK(set->manifest.size() > 0);
    CHECK(names.insert(std::string(set->set) + "/" + std::string(set->backend)).second);
  }
  CHECK_FALSE(names.contains("sample/test"));
}

}  // namespace kdart::detail
