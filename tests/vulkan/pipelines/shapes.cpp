#include "tests/vulkan/pipelines/shapes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/kda/layer_impl.h"
#include "kdart/forwarding_backend.h"
#include "kdart/kda_kernels.h"
#include "tests/support/fake_backend.h"

namespace kdart::test {
namespace {

class Listener final : public ForwardingBackend {
 public:
  explicit Listener(std::shared_ptr<GpuBackend> inner) : ForwardingBackend(std::move(inner)) {}
  ~Listener() override { shut_down(); }

  std::vector<PipelineShape> prepared;

 protected:
  KernelLoad do_get_kernel(Native module, const ImageKernel& kernel, const ContractKernel& contract) override {
    KernelLoad load = ForwardingBackend::do_get_kernel(module, kernel, contract);
    kernels_[load.kernel] = {kernel.name, kernel.symbol};
    return load;
  }
  void do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) override {
    const auto& [name, symbol] = kernels_.at(kernel);
    const PipelineShape shape{name, symbol, block, shared_bytes};
    if (std::find(prepared.begin(), prepared.end(), shape) == prepared.end()) prepared.push_back(shape);
  }

 private:
  std::map<Native, std::pair<std::string, std::string>> kernels_;
};

// What the layer asks of a device, at the least that Vulkan devices have.
std::shared_ptr<FakeBackend> open_fake_device(const Manifest& manifest) {
  DeviceInfo info = fake_info();
  info.limits.shared_memory_per_block = 32768;
  auto device = FakeBackend::open({}, info);
  DeviceFacts facts;
  facts.backend = manifest.backend;
  facts.shared_memory_per_block = info.limits.shared_memory_per_block;
  facts.threads_per_block = info.limits.threads_per_block;
  facts.subgroup_min = 32;
  facts.subgroup_max = 64;
  facts.argument_bytes = 128;
  for (const ManifestImage& image : manifest.images) {
    facts.target = std::max(facts.target, image.target);
    facts.capabilities.insert(facts.capabilities.end(), image.capabilities.begin(), image.capabilities.end());
  }
  device->set_facts(facts);
  return device;
}

}  // namespace

std::vector<PipelineShape> layer_pipelines(const std::shared_ptr<const KernelSet>& set) {
  const auto listener = std::make_shared<Listener>(open_fake_device(set->manifest()));
  const auto loaded = listener->load(set);
  constexpr std::uint32_t chunk = 16;
  for (const std::uint32_t head_dim : {128U, 64U}) {
    KdaConfig config = named_geometry("kimi-linear");
    config.head_dim = head_dim;
    const LayerKernels kernels = detail::find_kernels(*loaded, {}, config, listener->info());
    detail::prepare_kernels(*listener, kernels, config, chunk);
  }
  std::vector<PipelineShape> sorted;
  for (const ContractKernel& kernel : set->contract().kernels) {
    for (const PipelineShape& shape : listener->prepared) {
      if (shape.kernel == kernel.name) sorted.push_back(shape);
    }
  }
  return sorted;
}

}  // namespace kdart::test
