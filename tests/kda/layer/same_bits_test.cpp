// The reference route has the same bits on CPU, CUDA and HIP: the device under test against the CPU, which every
// other test holds to float64.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "tests/kda/kernels/catalogue.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

std::shared_ptr<GpuBackend> device_to_compare() {
  std::shared_ptr<GpuBackend> device = open_test_device();
  const std::string& backend = device->info().backend;
  if (backend == "cpu") SKIP("the CPU is what the other devices are compared with");
  if (backend == "vulkan") SKIP("Vulkan divides and takes roots within 2.5 units in the last place (docs/vulkan.md)");
  return device;
}

}  // namespace

TEST_CASE("the reference route has the CPU's bits", "[kda][layer][bits]") {
  constexpr std::uint32_t tokens = 130;
  const auto device = device_to_compare();
  const std::vector<Pieces> runs{decode_each(tokens),
                                 decode_cycle(tokens),
                                 prefill_whole(tokens),
                                 prefill_cut(37, tokens),
                                 {{Call::prefill, 64}, {Call::decode, 1}, {Call::decode_k, 21}, {Call::prefill, 44}}};
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer(), full_rank_layer()}) {
    const KdaWeights weights = reference::random_weights(config, 77);
    const KdaOptions options{.route = KdaRoute::reference};
    LayerRunner there(KdaDeviceWeights::upload(device, weights), tokens, options);
    LayerRunner here(KdaDeviceWeights::upload(open_device("cpu:0"), weights), tokens, options);
    const Input input = random_input(config, tokens, 5);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      INFO("D " << config.head_dim << ", " << config.heads << " heads, run " << i);
      CHECK(difference(there.run(input, runs[i]), here.run(input, runs[i])) == "");
    }
  }
}

TEST_CASE("every kernel has the CPU's bits", "[kernel][bits]") {
  KernelRunner there(device_to_compare());
  KernelRunner here(open_device("cpu:0"));
  for (const CatalogueEntry& entry : catalogue()) {
    if (!there.has(entry.kernel)) continue;
    INFO(entry.kernel);
    for (const bool smallest : {false, true}) CHECK(same_bits(entry.run(there, smallest), entry.run(here, smallest)));
  }
}

}  // namespace kdart::test
