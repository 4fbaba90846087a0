#include "tests/support/kernel_set_folder.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace kdart::test {
namespace {

using nlohmann::json;

json kernel_json(const ManifestKernel& kernel) {
  json args = json::array();
  for (const ManifestArg& arg : kernel.args) {
    args.push_back({{"name", arg.name}, {"kind", to_string(arg.kind)}, {"offset", arg.offset}, {"size", arg.size}});
  }
  return {{"name", kernel.name}, {"args", args}, {"argument_bytes", kernel.argument_bytes}};
}

json image_kernel_json(const ImageKernel& kernel) {
  json result{{"name", kernel.name}, {"symbol", kernel.symbol}, {"static_shared_bytes", kernel.static_shared_bytes}};
  if (kernel.min_threads != 0) result["min_threads"] = kernel.min_threads;
  if (kernel.max_threads != 0) result["max_threads"] = kernel.max_threads;
  if (kernel.subgroup != 0) result["subgroup"] = kernel.subgroup;
  if (kernel.registers) result["registers"] = *kernel.registers;
  if (!kernel.tunables.empty()) result["tunables"] = kernel.tunables;
  return result;
}

json image_json(const ManifestImage& image, const std::set<std::string>& without) {
  json kernels = json::array();
  for (const ImageKernel& kernel : image.kernels) {
    if (!without.contains(kernel.name)) kernels.push_back(image_kernel_json(kernel));
  }
  json result{{"file", image.file},   {"target", image.target}, {"format", to_string(image.format)},
              {"bytes", image.bytes}, {"sha256", image.sha256}, {"kernels", kernels}};
  if (image.ptx_isa != 0) result["ptx_isa"] = image.ptx_isa;
  if (!image.capabilities.empty()) result["capabilities"] = image.capabilities;
  return result;
}

void write(const std::filesystem::path& path, const void* data, std::size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

}  // namespace

void write_kernel_set(const KernelSet& set, const std::filesystem::path& folder, const std::set<std::string>& without) {
  const Manifest& manifest = set.manifest();
  json kernels = json::array();
  for (const ManifestKernel& kernel : manifest.kernels) kernels.push_back(kernel_json(kernel));
  json images = json::array();
  for (const ManifestImage& image : manifest.images) {
    images.push_back(image_json(image, without));
    const std::vector<std::byte> bytes = set.read_image(image);
    write(folder / image.file, bytes.data(), bytes.size());
  }
  const json document{{"schema", Manifest::schema},
                      {"set", manifest.set},
                      {"version", manifest.version},
                      {"backend", manifest.backend},
                      {"toolchain", manifest.toolchain},
                      {"kernels", kernels},
                      {"images", images}};
  const std::string text = document.dump(1);
  write(folder / "manifest.json", text.data(), text.size());
}

}  // namespace kdart::test
