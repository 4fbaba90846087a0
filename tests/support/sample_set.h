// A small contract and a kernel set for it in memory, for tests of loading and launching.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"

namespace kdart::test {

// Kernel "scale" of sample_contract(): y[i] = a * x[i], bias optional.
struct alignas(8) ScaleArgs {
  DevicePtr x;
  DevicePtr y;
  DevicePtr bias;
  std::uint32_t n;
  float a;
  [[nodiscard]] static const ContractKernel& contract();
};

// Set "sample", with the kernels "scale" (pointers aligned to 16, `bias` nullable; blocks of 64, 16 bytes of dynamic shared
// memory) and "tagged" (one argument of each kind), both required, and "extra" (no arguments), which is not.
[[nodiscard]] const Contract& sample_contract();

// A manifest for the backend "cpu" that describes sample_contract(), with one image for each target.
[[nodiscard]] Manifest sample_manifest(const std::vector<std::string>& targets = {"x86-64"});

// A set whose image bytes are given by file name.
class MemorySet final : public KernelSet {
 public:
  MemorySet(const Contract& contract, Manifest manifest, std::map<std::string, std::vector<std::byte>> files)
      : KernelSet(contract, std::move(manifest), "memory"), files_(std::move(files)) {}

 protected:
  [[nodiscard]] std::vector<std::byte> do_read(const ManifestImage& image) const override {
    return files_.at(image.file);
  }

 private:
  std::map<std::string, std::vector<std::byte>> files_;
};

// What the images of sample_manifest() hold.
[[nodiscard]] std::vector<std::byte> sample_image_bytes();
// `manifest` with the bytes that sample_manifest() states for each of its images.
[[nodiscard]] std::shared_ptr<const KernelSet> sample_set(Manifest manifest = sample_manifest());

// A launch of `scale`: one block of 64 threads with 16 bytes of dynamic shared memory.
void launch_scale(GpuBackend& gpu, const LoadedSet& set, DevicePtr x, DevicePtr y, Stream stream);

}  // namespace kdart::test
