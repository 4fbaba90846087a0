#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "core/runtime/ptx_isa.h"
#include "kdart/kernel_set.h"

namespace kdart::test {
namespace {

struct Offer {
  std::string target;
  ImageFormat format;
  std::uint32_t ptx_isa = 0;
  std::vector<std::string> capabilities = {};
  ImageKernel kernel = {};
};

Manifest manifest_of(const std::string& backend, const std::vector<Offer>& offers) {
  Manifest manifest;
  manifest.set = "test";
  manifest.backend = backend;
  manifest.kernels = {{"k", {}, 200}};
  for (std::size_t i = 0; i < offers.size(); ++i) {
    ManifestImage image;
    image.file = "file" + std::to_string(i);
    image.target = offers[i].target;
    image.format = offers[i].format;
    image.ptx_isa = offers[i].ptx_isa;
    image.capabilities = offers[i].capabilities;
    image.kernels = {offers[i].kernel};
    image.kernels[0].name = "k";
    manifest.images.push_back(image);
  }
  return manifest;
}

// The chosen image's target and ISA, "" for none. Every other image must have a reason.
std::string choose(const DeviceFacts& facts, const Manifest& manifest) {
  const Selection selection = select_image(facts, manifest);
  CHECK(selection.rejected.size() == manifest.images.size() - (selection.image ? 1 : 0));
  for (const RejectedImage& image : selection.rejected) CHECK_FALSE(image.reason.empty());
  if (!selection.image) return "";
  const ManifestImage& image = manifest.images[*selection.image];
  return image.target + (image.ptx_isa != 0 ? " ptx " + std::to_string(image.ptx_isa) : "");
}

std::string reason(const DeviceFacts& facts, const Manifest& manifest, std::size_t index) {
  const std::string file = "file" + std::to_string(index);
  for (const RejectedImage& image : select_image(facts, manifest).rejected) {
    if (image.file == file) return image.reason;
  }
  return "chosen";
}

struct Golden {
  std::string device;
  std::vector<std::string> offers;
  std::string choice;
};

// Chooses whatever order the images stand in.
void check_table(const std::string& backend, ImageFormat format, const std::vector<Golden>& table) {
  for (const Golden& row : table) {
    std::vector<std::string> targets = row.offers;
    std::sort(targets.begin(), targets.end());
    do {
      std::vector<Offer> offers;
      for (const std::string& target : targets) offers.push_back({target, format});
      INFO("device " << row.device << ", first image " << (targets.empty() ? "none" : targets.front()));
      CHECK(choose({.backend = backend, .target = row.device}, manifest_of(backend, offers)) == row.choice);
    } while (std::next_permutation(targets.begin(), targets.end()));
  }
}

TEST_CASE("CPU images: same architecture, the highest level the device has", "[runtime][selection]") {
  const std::vector<std::string> all{"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  check_table("cpu", ImageFormat::elf_shared,
              {{"x86-64", all, "x86-64"},
               {"x86-64-v2", all, "x86-64-v2"},
               {"x86-64-v3", all, "x86-64-v3"},
               {"x86-64-v4", all, "x86-64-v4"},
               {"x86-64-v3", {"x86-64", "x86-64-v4"}, "x86-64"},
               {"x86-64-v2", {"x86-64-v3", "x86-64-v4"}, ""},
               {"x86-64-v10", {"x86-64-v9", "x86-64-v4"}, "x86-64-v9"},
               {"aarch64", {"x86-64", "aarch64"}, "aarch64"},
               {"aarch64", all, ""},
               {"x86-64", {"aarch64"}, ""},
               {"x86-64", {}, ""}});
}

TEST_CASE("NVIDIA images: exact, then family and plain, never across majors", "[runtime][selection]") {
  check_table("cuda", ImageFormat::cubin,
              {{"sm_90", {"sm_90", "sm_90a"}, "sm_90a"},
               {"sm_90", {"sm_80", "sm_90"}, "sm_90"},
               {"sm_90", {"sm_80"}, ""},
               {"sm_80", {"sm_90", "sm_90a"}, ""},
               {"sm_86", {"sm_80", "sm_86", "sm_89"}, "sm_86"},
               {"sm_89", {"sm_80", "sm_86"}, "sm_86"},
               {"sm_80", {"sm_86"}, ""},
               {"sm_103", {"sm_100", "sm_100a", "sm_100f"}, "sm_100f"},
               {"sm_103", {"sm_100a", "sm_100"}, "sm_100"},
               {"sm_103", {"sm_103", "sm_100f"}, "sm_103"},
               {"sm_103", {"sm_103", "sm_103f"}, "sm_103f"},
               {"sm_103", {"sm_103a", "sm_103f", "sm_103"}, "sm_103a"},
               {"sm_120", {"sm_100f", "sm_100"}, ""},
               {"sm_100", {"sm_103f"}, ""},
               {"sm_121", {"sm_120a", "sm_120"}, "sm_120"},
               {"sm_90", {"sm_", "sm_a", "90", "sm_9", "sm_90x", "sm_90aa", "sm_-90", "sm_99999999999"}, ""},
               {"gfx942", {"sm_90"}, ""}});
}

TEST_CASE("NVIDIA PTX: last, and bounded by device and driver", "[runtime][selection]") {
  const auto ptx = [](const std::string& target, std::uint32_t isa) { return Offer{target, ImageFormat::ptx, isa}; };
  const auto cubin = [](const std::string& target) { return Offer{target, ImageFormat::cubin}; };
  const auto pick = [](const std::string& device, std::uint32_t driver_isa, const std::vector<Offer>& offers) {
    return choose({.backend = "cuda", .target = device, .ptx_isa = driver_isa}, manifest_of("cuda", offers));
  };
  CHECK(pick("sm_90", 80, {ptx("sm_90", 78), cubin("sm_90")}) == "sm_90");
  CHECK(pick("sm_100", 80, {cubin("sm_90"), ptx("sm_80", 78)}) == "sm_80 ptx 78");
  CHECK(pick("sm_100", 80, {ptx("compute_80", 78), ptx("compute_90", 78)}) == "compute_90 ptx 78");
  CHECK(pick("sm_90", 80, {ptx("sm_80", 78), ptx("sm_80", 80), ptx("sm_80", 81)}) == "sm_80 ptx 80");
  CHECK(pick("sm_90", 77, {ptx("sm_80", 78)}).empty());
  CHECK(pick("sm_90", 78, {ptx("sm_80", 78)}) == "sm_80 ptx 78");
  CHECK(pick("sm_80", 90, {ptx("sm_90", 78)}).empty());
  CHECK(pick("sm_100", 90, {ptx("sm_90a", 80)}).empty());
  CHECK(pick("sm_90", 90, {ptx("sm_90a", 80)}) == "sm_90a ptx 80");
  CHECK(pick("sm_103", 90, {ptx("sm_100f", 88)}) == "sm_100f ptx 88");
  CHECK(pick("sm_120", 90, {ptx("sm_100f", 88)}).empty());
}

TEST_CASE("PTX that is too new says which driver takes it and which was found", "[runtime][selection]") {
  const auto reason_of = [](std::uint32_t isa, const std::string& driver) {
    return reason({.backend = "cuda", .target = "sm_90", .ptx_isa = 84, .driver_version = driver},
                  manifest_of("cuda", {Offer{"compute_80", ImageFormat::ptx, isa}}), 0);
  };
  CHECK(reason_of(90, "CUDA 12.4 (driver 550.54.14)") ==
        "its PTX ISA 9.0 needs driver >= 580 (CUDA 13.0), found CUDA 12.4 (driver 550.54.14)");
  CHECK(reason_of(87, "") == "its PTX ISA 8.7 needs driver >= 570 (CUDA 12.8), found one that takes 8.4");
  CHECK(reason_of(990, "CUDA 12.4") == "its PTX ISA 99.0 needs a driver that takes it, found CUDA 12.4");
}

TEST_CASE("a driver takes the PTX of its CUDA version and all before", "[runtime][selection]") {
  CHECK(detail::ptx_isa_of_cuda(10020) == 0);
  CHECK(detail::ptx_isa_of_cuda(11040) == 74);
  CHECK(detail::ptx_isa_of_cuda(12060) == 85);  // 12.6 brought no new one
  CHECK(detail::ptx_isa_of_cuda(13000) == 90);
  CHECK(detail::ptx_isa_of_cuda(99000) == detail::ptx_isas.back().isa);
  CHECK(std::is_sorted(detail::ptx_isas.begin(), detail::ptx_isas.end(), [](const auto& a, const auto& b) {
    return a.isa < b.isa && a.cuda < b.cuda && a.driver < b.driver;
  }));
}

TEST_CASE("AMD images: same processor, xnack and sramecc unstated or equal", "[runtime][selection]") {
  check_table("hip", ImageFormat::code_object,
              {{"gfx942:sramecc+:xnack-", {"gfx942"}, "gfx942"},
               {"gfx942:sramecc+:xnack-", {"gfx942", "gfx942:xnack-"}, "gfx942:xnack-"},
               {"gfx942:sramecc+:xnack-", {"gfx942:xnack-", "gfx942:sramecc+:xnack-"}, "gfx942:sramecc+:xnack-"},
               {"gfx942:sramecc+:xnack-", {"gfx942:xnack+"}, ""},
               {"gfx942:sramecc+:xnack+", {"gfx942:xnack-", "gfx942:xnack+"}, "gfx942:xnack+"},
               {"gfx942:sramecc+:xnack-", {"gfx942:sramecc-"}, ""},
               {"gfx942:xnack-:sramecc+", {"gfx942:sramecc+:xnack-"}, "gfx942:sramecc+:xnack-"},  // in any order
               {"gfx1100", {"gfx1100"}, "gfx1100"},
               {"gfx1100", {"gfx1100:xnack-"}, ""},  // the device has no such mode
               {"gfx90a:sramecc+:xnack-", {"gfx942", "gfx1100"}, ""},
               {"gfx90a", {"gfx90"}, ""},
               {"gfx942:sramecc+:xnack-", {"gfx9-4-generic", "gfx942"}, "gfx942"},
               {"gfx942:sramecc+:xnack-", {"gfx9-4-generic", "gfx90a"}, "gfx9-4-generic"},
               {"gfx942:sramecc+:xnack-", {"gfx9-4-generic:xnack+"}, ""},
               {"gfx942:sramecc+:xnack-", {"gfx9-generic", "gfx11-generic", "gfx9-5-generic"}, ""},
               {"gfx906:sramecc+:xnack-", {"gfx9-generic"}, "gfx9-generic"},
               {"gfx90a:sramecc+:xnack-", {"gfx9-generic"}, ""},
               {"gfx1036", {"gfx10-3-generic", "gfx10-1-generic"}, "gfx10-3-generic"},
               {"gfx1150", {"gfx11-generic"}, "gfx11-generic"},
               {"gfx1201", {"gfx12-5-generic", "gfx12-generic"}, "gfx12-generic"},
               {"gfx1250", {"gfx12-generic", "gfx12-5-generic"}, "gfx12-5-generic"},
               {"gfx94 2", {"gfx94 2"}, ""},
               {"gfx942", {"gfx", "gfx942:", "gfx942:xnack", "gfx942:tgsplit+", "gfx942:xnack+:xnack+", "942"}, ""},
               {"sm_90", {"gfx942"}, ""}});
}

TEST_CASE("SPIR-V images: within version, capabilities and limits, the most demanding first", "[runtime][selection]") {
  const DeviceFacts device{.backend = "vulkan",
                           .target = "spv1.5",
                           .capabilities = {"Shader", "Int64", "Float16"},
                           .shared_memory_per_block = 32768,
                           .threads_per_block = 1024,
                           .subgroup_min = 8,
                           .subgroup_max = 32,
                           .argument_bytes = 256};
  const auto spirv = [](const std::string& target, std::vector<std::string> capabilities, ImageKernel kernel = {}) {
    return Offer{target, ImageFormat::spirv, 0, std::move(capabilities), std::move(kernel)};
  };
  const auto pick = [&](const std::vector<Offer>& offers) { return choose(device, manifest_of("vulkan", offers)); };
  const auto why = [&](const Offer& offer) { return reason(device, manifest_of("vulkan", {offer}), 0); };
  CHECK(pick({spirv("spv1.3", {"Shader"}), spirv("spv1.5", {"Shader"})}) == "spv1.5");
  CHECK(pick({spirv("spv1.6", {"Shader"}), spirv("spv1.4", {"Shader"})}) == "spv1.4");
  CHECK(pick({spirv("spv1.5", {"Shader"}), spirv("spv1.3", {"Shader", "Float16"})}) == "spv1.3");
  CHECK(pick({spirv("spv1.3", {"Shader", "BFloat16TypeKHR"}), spirv("spv1.4", {})}) == "spv1.4");
  CHECK(pick({spirv("spv1.10", {})}).empty());
  CHECK(pick({spirv("vulkan1.2", {}), spirv("spv1", {}), spirv("spv1.x", {})}).empty());
  CHECK(why(spirv("spv1.3", {"BFloat16TypeKHR"})).find("'BFloat16TypeKHR'") != std::string::npos);
  CHECK(why(spirv("spv1.3", {}, {.static_shared_bytes = 32768})) == "chosen");
  CHECK(why(spirv("spv1.3", {}, {.static_shared_bytes = 32769})).find("32769") != std::string::npos);
  CHECK(why(spirv("spv1.3", {}, {.min_threads = 1024})) == "chosen");
  CHECK(why(spirv("spv1.3", {}, {.min_threads = 1025})).find("1025") != std::string::npos);
  CHECK(why(spirv("spv1.3", {}, {.subgroup = 32})) == "chosen");
  CHECK(why(spirv("spv1.3", {}, {.subgroup = 64})).find("subgroups of 64") != std::string::npos);
  CHECK(why(spirv("spv1.3", {}, {.subgroup = 4})).find("8 to 32") != std::string::npos);
  DeviceFacts small = device;
  small.argument_bytes = 128;
  CHECK(reason(small, manifest_of("vulkan", {spirv("spv1.3", {})}), 0).find("200 bytes of arguments") !=
        std::string::npos);
}

TEST_CASE("images of another vendor's format, or of another backend's set, are refused", "[runtime][selection]") {
  const std::vector<Offer> all{{"x86-64", ImageFormat::elf_shared},
                               {"sm_90", ImageFormat::cubin},
                               {"sm_80", ImageFormat::ptx, 70},
                               {"gfx942", ImageFormat::code_object},
                               {"spv1.3", ImageFormat::spirv}};
  const std::vector<std::pair<std::string, std::string>> devices{
      {"cpu", "x86-64"}, {"cuda", "sm_90"}, {"hip", "gfx942"}, {"vulkan", "spv1.3"}};
  for (const auto& [backend, target] : devices) {
    const DeviceFacts facts{.backend = backend, .target = target, .ptx_isa = 80, .threads_per_block = 1024};
    CHECK(choose(facts, manifest_of(backend, all)) == target);
    const Manifest other = manifest_of("else", all);
    CHECK(choose(facts, other).empty());
    CHECK(reason(facts, other, 0).find("'else'") != std::string::npos);
  }
  CHECK(choose({.backend = "abacus", .target = "x86-64"}, manifest_of("abacus", all)).empty());
}

TEST_CASE("a fitting image that a better one beat says so", "[runtime][selection]") {
  const Manifest manifest =
      manifest_of("cpu", {{"x86-64", ImageFormat::elf_shared}, {"x86-64-v3", ImageFormat::elf_shared}});
  const std::string why = reason({.backend = "cpu", .target = "x86-64-v4"}, manifest, 0);
  CHECK(why.find("fits") != std::string::npos);
  CHECK(why.find("file1") != std::string::npos);
}

}  // namespace
}  // namespace kdart::test
