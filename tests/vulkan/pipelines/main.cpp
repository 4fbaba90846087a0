// Compiles every pipeline of a Vulkan kernel set for AMD GPUs that are not there, with Mesa's driver, and fails when one
// spills registers or needs scratch memory: both are memory traffic in the middle of a kernel.
//
//   kdart_vulkan_pipelines KERNEL_SET_FOLDER FAMILY...              prints the page
//   kdart_vulkan_pipelines --write PAGE KERNEL_SET_FOLDER FAMILY... writes it
//   kdart_vulkan_pipelines --check PAGE KERNEL_SET_FOLDER FAMILY... fails when it differs from PAGE, unless PAGE is of other
//                                                                   versions of the compilers
#include <algorithm>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/vulkan/spirv.h"
#include "core/runtime/format.h"
#include "kdart/kda_kernels.h"
#include "tests/vulkan/pipelines/page.h"
#include "tests/vulkan/pipelines/radv.h"
#include "tests/vulkan/pipelines/shapes.h"

namespace kdart::test {
namespace {

// The backend's own kernels.
constexpr std::uint32_t fill_bytes_code[] = {
#include "backends/vulkan/fill_bytes.inc"
};
constexpr std::uint32_t copy_bytes_code[] = {
#include "backends/vulkan/copy_bytes.inc"
};
constexpr std::uint32_t copy_vectors_code[] = {
#include "backends/vulkan/copy_vectors.inc"
};

// Needs scratch memory: what there is to find.
constexpr std::uint32_t scratch_code[] = {
#include "tests/vulkan/scratch.inc"
};

struct Arguments {
  std::string mode;  // "", "--write" or "--check"
  std::filesystem::path page;
  std::filesystem::path folder;
  std::vector<std::string> families;
};

Arguments parse(std::vector<std::string> words) {
  Arguments arguments;
  auto next = words.begin();
  if (words.size() >= 2 && (words[0] == "--write" || words[0] == "--check")) {
    arguments.mode = words[0];
    arguments.page = words[1];
    next += 2;
  }
  if (words.end() - next < 2) {
    throw std::invalid_argument(
        "usage: kdart_vulkan_pipelines [--write PAGE | --check PAGE] KERNEL_SET_FOLDER FAMILY...");
  }
  arguments.folder = *next;
  arguments.families.assign(next + 1, words.end());
  return arguments;
}

// The image that AMD's devices are given, as its modules: the one that asks for most, since they can be held to exact floats.
struct Image {
  explicit Image(const KernelSet& set) {
    const auto& images = set.manifest().images;
    const auto image = std::max_element(images.begin(), images.end(), [](const auto& a, const auto& b) {
      return a.capabilities.size() < b.capabilities.size();
    });
    if (image == images.end()) throw std::runtime_error("the kernel set has no image");
    const std::vector<std::byte> bytes = set.read_image(*image);
    words.resize(bytes.size() / sizeof(std::uint32_t));
    std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint32_t));
    modules = vulkan::parse_spirv(words, image->file);
  }
  [[nodiscard]] std::span<const std::uint32_t> module_of(const std::string& symbol) const {
    for (const auto& module : modules) {
      for (const auto& entry : module.entries) {
        if (entry.name == symbol) return module.words;
      }
    }
    throw std::runtime_error("the image has no entry point " + symbol);
  }

  std::vector<std::uint32_t> words;
  std::vector<vulkan::SpirvModule> modules;  // refer to `words`
};

bool spills(const PipelineStatistics& statistics) {
  return statistics.spilled_vgprs != 0 || statistics.spilled_sgprs != 0 || statistics.scratch_bytes != 0;
}

FamilyTable compile_all(const Radv& radv, const std::string& family, const Image& image,
                        const std::vector<PipelineShape>& shapes) {
  if (!spills(radv.compile(scratch_code, "main", {}))) {
    throw std::runtime_error("the driver reports no scratch memory for a kernel that cannot do without");
  }
  FamilyTable table{family, {}};
  for (const PipelineShape& shape : shapes) {
    // As the backend sets them: backends/vulkan/spirv.h.
    const std::uint32_t shared_words = std::max(1U, (shape.shared_bytes + 3) / 4);
    const std::uint32_t constants[] = {shape.block.x, shape.block.y, shape.block.z, shared_words};
    std::string block = std::to_string(shape.block.x);
    if (shape.block.y * shape.block.z != 1) block += detail::format(" x {} x {}", shape.block.y, shape.block.z);
    table.rows.push_back({shape.kernel, block, shape.shared_bytes,
                          radv.compile(image.module_of(shape.symbol), shape.symbol, constants)});
  }
  table.rows.push_back({"fill_bytes", "fixed", 0, radv.compile(fill_bytes_code, "main", {})});
  table.rows.push_back({"copy_bytes", "fixed", 0, radv.compile(copy_bytes_code, "main", {})});
  table.rows.push_back({"copy_vectors", "fixed", 0, radv.compile(copy_vectors_code, "main", {})});
  return table;
}

// Prints each; true when there is one.
bool any_spills(const std::vector<FamilyTable>& tables) {
  bool found = false;
  for (const FamilyTable& table : tables) {
    for (const auto& [kernel, block, shared_bytes, s] : table.rows) {
      if (!spills(s)) continue;
      std::cerr << detail::format(
          "{}: {} with blocks of {} and {} bytes of shared memory spills {} VGPRs and {} SGPRs and uses {} bytes of "
          "scratch memory\n",
          table.family, kernel, block, shared_bytes, s.spilled_vgprs, s.spilled_sgprs, s.scratch_bytes);
      found = true;
    }
  }
  return found;
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// False when the page is out of date.
bool check_page(const std::filesystem::path& path, const std::string& tools, const std::string& page) {
  const std::string kept = read(path);
  if (kept == page) return true;
  if (kept.find(tools) == std::string::npos) {
    std::cerr << detail::format("{} was made with other compilers than {}: not compared\n", path.string(), tools);
    return true;
  }
  std::cerr << path.string() << " is out of date; this is what it should be:\n" << page;
  return false;
}

int run(const Arguments& arguments) {
  const auto set = KernelSet::from_directory(kernels::kda_contract(), arguments.folder);
  const Image image(*set);
  const std::vector<PipelineShape> shapes = layer_pipelines(set);
  const std::filesystem::path driver = find_radv();
  std::vector<FamilyTable> tables;
  std::string tools;
  for (const std::string& family : arguments.families) {
    const Radv radv(driver, family);
    tools = radv.driver_version();
    tables.push_back(compile_all(radv, family, image, shapes));
  }
  for (const auto& [tool, version] : set->manifest().toolchain) tools += detail::format(", {} {}", tool, version);

  const std::string page = registers_page(tools, tables);
  if (arguments.mode.empty()) std::cout << page;
  if (arguments.mode == "--write") std::ofstream(arguments.page, std::ios::binary) << page;
  const bool current = arguments.mode != "--check" || check_page(arguments.page, tools, page);
  std::cerr << detail::format("{} pipelines for {} families\n", shapes.size() + 2, tables.size());
  return any_spills(tables) || !current ? 1 : 0;
}

}  // namespace
}  // namespace kdart::test

int main(int argc, char** argv) try {
  return kdart::test::run(kdart::test::parse({argv + 1, argv + argc}));
} catch (const std::exception& error) {
  std::cerr << "kdart_vulkan_pipelines: " << error.what() << "\n";
  return 2;
}
