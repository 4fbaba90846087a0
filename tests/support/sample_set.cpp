#include "tests/support/sample_set.h"

#include <array>
#include <cstring>
#include <utility>

#include "core/runtime/sha256.h"

namespace kdart::test {
namespace {

constexpr ContractArg pointer(std::string_view name, std::uint16_t offset, ArgAccess access, bool nullable) {
  return {name, ArgKind::ptr, offset, 8, "f32", access, nullable, 16, "n"};
}
constexpr ContractArg scalar(std::string_view name, ArgKind kind, std::uint16_t offset, std::uint16_t size) {
  return {name, kind, offset, size, "", ArgAccess::none, false, 0, ""};
}

constexpr std::array scale_args{pointer("x", 0, ArgAccess::in, false), pointer("y", 8, ArgAccess::out, false),
                                pointer("bias", 16, ArgAccess::in, true), scalar("n", ArgKind::u32, 24, 4),
                                scalar("a", ArgKind::f32, 28, 4)};
constexpr std::array tagged_args{pointer("p", 0, ArgAccess::inout, false), scalar("u", ArgKind::u32, 8, 4),
                                 scalar("i", ArgKind::i32, 12, 4),         scalar("w", ArgKind::u64, 16, 8),
                                 scalar("f", ArgKind::f32, 24, 4),         scalar("map", ArgKind::bytes, 64, 128)};

LaunchShape scale_shape(const std::byte* arguments) {
  std::uint32_t n = 0;
  std::memcpy(&n, arguments + 24, sizeof n);
  return {{(n + 63) / 64, 1, 1}, {64, 1, 1}, 16};
}
LaunchShape one_block(const std::byte*) {
  return {};
}
void no_extents(const std::byte*, std::uint64_t*) {}

constexpr std::array<ContractKernel, 3> kernels{
    {{"scale", true, false, scale_args, 32, "y = a * x", scale_shape, no_extents},
     {"tagged", true, false, tagged_args, 192, "one argument of each kind", one_block, no_extents},
     {"extra", false, false, {}, 0, "nothing", one_block, no_extents}}};
constexpr Contract contract{"sample", 1, kernels};

}  // namespace

const ContractKernel& ScaleArgs::contract() {
  return kernels[0];
}

const Contract& sample_contract() {
  return contract;
}

std::vector<std::byte> sample_image_bytes() {
  std::vector<std::byte> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

Manifest sample_manifest(const std::vector<std::string>& targets) {
  Manifest manifest;
  manifest.set = "sample";
  manifest.version = "0.1.0";
  manifest.backend = "cpu";
  manifest.toolchain = {{"cc", "1"}};
  for (const ContractKernel& kernel : kernels) {
    ManifestKernel described;
    described.name = kernel.name;
    described.argument_bytes = kernel.argument_bytes;
    for (const ContractArg& arg : kernel.args) {
      described.args.push_back({std::string(arg.name), arg.kind, arg.offset, arg.size});
    }
    manifest.kernels.push_back(std::move(described));
  }
  for (const std::string& target : targets) {
    ManifestImage image;
    image.file = "sample." + target + ".so";
    image.target = target;
    image.bytes = sample_image_bytes().size();
    image.sha256 = detail::sha256_hex(sample_image_bytes());
    for (const ContractKernel& kernel : kernels) {
      ImageKernel offered;
      offered.name = kernel.name;
      offered.symbol = "kernel_" + offered.name;
      image.kernels.push_back(std::move(offered));
    }
    manifest.images.push_back(std::move(image));
  }
  return manifest;
}

std::shared_ptr<const KernelSet> sample_set(Manifest manifest) {
  std::map<std::string, std::vector<std::byte>> files;
  for (const ManifestImage& image : manifest.images) files[image.file] = sample_image_bytes();
  return std::make_shared<MemorySet>(sample_contract(), std::move(manifest), std::move(files));
}

void launch_scale(GpuBackend& gpu, const LoadedSet& set, DevicePtr x, DevicePtr y, Stream stream) {
  const ScaleArgs args{.x = x, .y = y, .bias = {}, .n = 64, .a = 2.0F};
  KernelLaunch(gpu, set.get("scale")).args(args).launch(stream);
}

}  // namespace kdart::test
