// manifest.json: any text gives a Manifest that keeps its promises, from which selection chooses, or one of two errors.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "kdart/error.h"
#include "kdart/kernel_set.h"

namespace {

using kdart::DeviceFacts;
using kdart::Manifest;

bool is_plain(const std::string& file) {
  return !file.empty() && file != "." && file != ".." && file.find_first_of("/\\") == std::string::npos &&
         std::none_of(file.begin(), file.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

bool is_hash(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

bool kernels_keep_their_promises(const Manifest& manifest) {
  std::set<std::string> names;
  for (const kdart::ManifestKernel& kernel : manifest.kernels) {
    std::uint32_t end = 0;
    for (const kdart::ManifestArg& arg : kernel.args) {
      if (arg.offset < end || arg.size == 0) return false;
      end = arg.offset + arg.size;
    }
    if (end > kernel.argument_bytes || kernel.argument_bytes > kdart::max_argument_bytes) return false;
    if (kernel.args.size() > kdart::max_kernel_arguments || !names.insert(kernel.name).second) return false;
  }
  return true;
}

bool images_keep_their_promises(const Manifest& manifest) {
  std::set<std::string> files;
  for (const kdart::ManifestImage& image : manifest.images) {
    if (!is_plain(image.file) || !is_hash(image.sha256) || image.bytes == 0 || !files.insert(image.file).second)
      return false;
    for (const kdart::ImageKernel& kernel : image.kernels) {
      const bool described = std::any_of(manifest.kernels.begin(), manifest.kernels.end(),
                                         [&](const kdart::ManifestKernel& k) { return k.name == kernel.name; });
      if (!described || kernel.symbol.empty()) return false;
    }
  }
  return true;
}

// One image or none is chosen, and each of the others has a reason.
bool selection_is_whole(const Manifest& manifest, const DeviceFacts& facts) {
  const kdart::Selection selection = kdart::select_image(facts, manifest);
  if (selection.image && *selection.image >= manifest.images.size()) return false;
  if (selection.rejected.size() + (selection.image ? 1 : 0) != manifest.images.size()) return false;
  return std::none_of(selection.rejected.begin(), selection.rejected.end(),
                      [](const kdart::RejectedImage& image) { return image.reason.empty(); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::array<DeviceFacts, 4> devices{{{.backend = "cpu", .target = "x86-64-v3"},
                                            {.backend = "cuda", .target = "sm_90", .ptx_isa = 80},
                                            {.backend = "hip", .target = "gfx942:sramecc+:xnack-"},
                                            {.backend = "vulkan", .target = "spv1.5", .capabilities = {"Shader"}}}};
  try {
    const auto manifest = Manifest::parse({reinterpret_cast<const char*>(data), size}, "fuzzed");
    if (!kernels_keep_their_promises(manifest) || !images_keep_their_promises(manifest)) std::abort();
    for (const DeviceFacts& facts : devices) {
      if (!selection_is_whole(manifest, facts)) std::abort();
    }
  } catch (const kdart::Error& error) {
    const bool expected =
        error.code() == kdart::ErrorCode::invalid_argument || error.code() == kdart::ErrorCode::unsupported_version;
    if (!expected || std::string_view(error.what()).size() > 2000) std::abort();
  }
  return 0;
}
