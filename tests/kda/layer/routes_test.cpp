// Which kernels the layer launches on which device, looked at on a device that only remembers; and what is left when that
// device's driver fails half-way.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kdart/kda_kernels.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_backend.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tests/support/sample_set.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

DeviceInfo device_with(std::uint64_t shared_memory) {
  DeviceInfo info = fake_info();
  info.limits.shared_memory_per_block = shared_memory;
  return info;
}

// The CPU's set as it is built in, with another tile for recurrent_smem.
std::shared_ptr<const KernelSet> set_with_tile(std::uint32_t v_per_block) {
  const auto built_in = KernelSet::embedded(kernels::kda_contract(), "cpu");
  Manifest manifest = built_in->manifest();
  std::map<std::string, std::vector<std::byte>> files;
  for (ManifestImage& image : manifest.images) {
    files[image.file] = built_in->read_image(image);
    for (ImageKernel& kernel : image.kernels) {
      if (kernel.name == "recurrent_smem") kernel.tunables["v_per_block"] = v_per_block;
    }
  }
  return std::make_shared<MemorySet>(kernels::kda_contract(), std::move(manifest), std::move(files));
}

// A layer on a fake device.
struct Fake {
  Fake(const KdaConfig& config, const DeviceInfo& info, std::uint32_t v_per_block = 32, KdaOptions options = {})
      : device(FakeBackend::open({}, info)) {
    options.kernels = device->load(set_with_tile(v_per_block));
    layer.emplace(device, reference::random_weights(config, 1), options);
  }
  std::shared_ptr<FakeBackend> device;
  std::optional<KdaLayer> layer;
};

// How often each kernel is launched by `call`.
template <class Call>
std::map<std::string, int> launches(FakeBackend& device, const Call& call) {
  const std::size_t before = device.launches().size();
  call();
  std::map<std::string, int> counts;
  const auto all = device.launches();
  for (std::size_t i = before; i < all.size(); ++i) ++counts[all[i].kernel];
  return counts;
}

}  // namespace

TEST_CASE("recurrent_smem is taken where its tile divides D and fits, to the byte", "[kda][layer][no-device][route]") {
  struct Expectation {
    std::uint32_t head_dim, v_per_block;
    std::uint64_t shared_memory;
    std::string_view kernel;
  };
  // (3 D + tile (D + 1)) * 4 bytes, within the smaller of 49,152 and the device's limit.
  const Expectation table[] = {
      {128, 32, 18048, "recurrent_smem"}, {128, 32, 20480, "recurrent_smem"}, {128, 32, 18047, "recurrent"},
      {128, 64, 34560, "recurrent_smem"}, {128, 64, 34559, "recurrent"},      {128, 128, 1 << 17, "recurrent"},
      {64, 64, 20480, "recurrent_smem"},  {64, 48, 1 << 17, "recurrent"},     {64, 128, 1 << 17, "recurrent"},
  };
  for (const Expectation& e : table) {
    INFO("D " << e.head_dim << ", tile " << e.v_per_block << ", " << e.shared_memory << " bytes");
    const KdaConfig config = e.head_dim == 128 ? full_rank_layer() : softplus_layer();
    // The matrix product needs 16,384 bytes in any case.
    const Fake fake(config, device_with(e.shared_memory), e.v_per_block);
    CHECK(fake.layer->recurrent_kernel() == e.kernel);
    KdaState state(fake.device, config);
    KdaWorkspace ws(fake.device, config, 2);
    const OwnedStream stream(fake.device);
    const Buffer hidden(fake.device, 2ULL * config.hidden_size * sizeof(bf16));
    const auto counts =
        launches(*fake.device, [&] { fake.layer->decode_k(hidden.get(), 2, state, ws, {}, stream.get()); });
    CHECK(counts.contains(std::string(e.kernel)));
    CHECK(counts.contains("recurrent") != counts.contains("recurrent_smem"));
  }
}

TEST_CASE("a device that cannot run a required kernel is refused by name", "[kda][layer][no-device][route][refusal]") {
  const KdaConfig config = full_rank_layer();
  KdaOptions chunk_32;
  chunk_32.chunk = 32;
  // chunk_scan: (2 * 32 * 128 + 32 * 32) * 4 bytes.
  CHECK_NOTHROW(Fake(config, device_with(36864), 32, chunk_32));
  expect_error(ErrorCode::unsupported, {"chunk_scan", "36864", "36863"},
               [&] { const Fake fake(config, device_with(36863), 32, chunk_32); });
  CHECK_NOTHROW(Fake(config, device_with(32768)));
  DeviceInfo narrow = fake_info();
  narrow.limits.threads_per_block = 128;
  narrow.limits.block = {128, 128, 64};
  expect_error(ErrorCode::unsupported, {"256", "128"}, [&] { const Fake fake(config, narrow); });
}

TEST_CASE("decode_k reads a weight once for up to 16 rows", "[kda][layer][no-device][route]") {
  const KdaConfig config = softplus_layer();  // seven projections: q|k|v, f twice, b, z twice, and the output
  const Fake fake(config, fake_info());
  KdaState state(fake.device, config);
  KdaWorkspace ws(fake.device, config, 64);
  const OwnedStream stream(fake.device);
  const Buffer hidden(fake.device, 64ULL * config.hidden_size * sizeof(bf16));
  const auto projections = [&](std::uint32_t rows) {
    const auto counts =
        launches(*fake.device, [&] { fake.layer->decode_k(hidden.get(), rows, state, ws, {}, stream.get()); });
    const auto count = [&](const char* name) { return counts.contains(name) ? counts.at(name) : 0; };
    CHECK(count("dense_gemm_bf16") == 0);  // never: its use would depend on the number of rows
    CHECK(count("recurrent_smem") == static_cast<int>(rows));
    CHECK(count("conv_decode") == static_cast<int>(rows));
    return std::pair(count("dense_gemv_bf16"), count("dense_gemv_bf16_batchm"));
  };
  CHECK(projections(1) == std::pair(7, 0));
  CHECK(projections(2) == std::pair(0, 7));
  CHECK(projections(16) == std::pair(0, 7));
  CHECK(projections(17) == std::pair(7, 7));
  CHECK(projections(21) == std::pair(0, 14));

  const auto prefill = launches(*fake.device, [&] { fake.layer->prefill(hidden.get(), 1, state, ws, stream.get()); });
  CHECK(prefill.at("dense_gemm_bf16") == 7);  // also for a prompt of one
  CHECK_FALSE(prefill.contains("dense_gemv_bf16"));
  CHECK(prefill.at("chunk_scan") == 1);
}

TEST_CASE("a device's own limit on the tokens of a launch splits a prompt", "[kda][layer][no-device][route]") {
  const KdaConfig config = softplus_layer();
  DeviceInfo info = fake_info();
  info.limits.max_tokens_per_launch = 40;  // two whole chunks of 16
  const auto pieces = [&](std::uint32_t limit) {
    KdaOptions options;
    options.max_tokens_per_launch = limit;
    const Fake fake(config, info, 32, options);
    KdaState state(fake.device, config);
    KdaWorkspace ws(fake.device, config, 100);
    const OwnedStream stream(fake.device);
    const Buffer hidden(fake.device, 100ULL * config.hidden_size * sizeof(bf16));
    return launches(*fake.device, [&] { fake.layer->prefill(hidden.get(), 100, state, ws, stream.get()); })
        .at("chunk_scan");
  };
  CHECK(pieces(0) == 4);  // 32 + 32 + 32 + 4
  CHECK(pieces(64) == 2);
}

TEST_CASE("an error of the driver while things are made leaves nothing behind", "[kda][layer][no-device][refusal]") {
  const KdaConfig config = softplus_layer();
  const KdaWeights weights = reference::random_weights(config, 2);
  const auto set = set_with_tile(32);
  const int live = FakeBackend::live_objects();
  const auto make = [&](const std::shared_ptr<FakeBackend>& device) {
    KdaOptions options;
    options.kernels = device->load(set);
    const KdaLayer layer(device, weights, options);
    const KdaState state(device, config);
    const KdaWorkspace ws(device, config, 8);
  };
  const auto model = FakeBackend::open();
  make(model);
  for (const char* function :
       {"alloc", "copy_h2d", "create_stream", "fill", "synchronize", "load_image", "get_kernel", "prepare"}) {
    const int calls = model->calls(function);
    REQUIRE(calls > 0);
    for (int nth = 1; nth <= calls; ++nth) {
      INFO(function << ", call " << nth << " of " << calls);
      const auto device = FakeBackend::open();
      device->fail_call(function, Error(ErrorCode::driver_error, "the driver says no", 99, "NO"), nth);
      expect_error(ErrorCode::driver_error, {"the driver says no"}, [&] { make(device); });
      CHECK(device->memory_info().live == 0);
      CHECK_NOTHROW(make(device));
    }
  }
  CHECK(FakeBackend::live_objects() == live);
}

TEST_CASE("an error of the driver within a call comes out as it is, and the layer goes on",
          "[kda][layer][no-device][refusal]") {
  const KdaConfig config = softplus_layer();
  const Fake fake(config, fake_info());
  KdaState state(fake.device, config);
  KdaWorkspace ws(fake.device, config, 8);
  const OwnedStream stream(fake.device);
  const Buffer hidden(fake.device, 8ULL * config.hidden_size * sizeof(bf16));
  const auto decode = [&] { fake.layer->decode(hidden.get(), state, ws, stream.get()); };
  const auto whole = launches(*fake.device, decode);
  int count = 0;
  for (const auto& [name, times] : whole) count += times;
  for (int nth = 1; nth <= count; ++nth) {
    fake.device->fail_call("launch", Error(ErrorCode::driver_error, "the driver says no", 99, "NO"), nth);
    expect_error(ErrorCode::driver_error, {"the driver says no"}, decode);
    CHECK(launches(*fake.device, decode) == whole);
  }
}

}  // namespace kdart::test
