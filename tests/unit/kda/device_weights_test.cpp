#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kdart/layer.h"
#include "tests/support/counting_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

template <class T>
void check_tensor(std::string_view name, GpuBackend& device, DevicePtr found, std::span<const T> expected) {
  INFO(name);
  if (expected.empty()) {
    CHECK_FALSE(found);
    return;
  }
  REQUIRE(found);
  CHECK(found.address() % 16 == 0);  // projections load eight bf16 at a time
  CHECK(download<T>(device, found, expected.size()) == std::vector<T>(expected.begin(), expected.end()));
}

std::vector<bf16> joined(std::span<const bf16> a, std::span<const bf16> b, std::span<const bf16> c) {
  std::vector<bf16> result(a.begin(), a.end());
  result.insert(result.end(), b.begin(), b.end());
  result.insert(result.end(), c.begin(), c.end());
  return result;
}

}  // namespace

TEST_CASE("every tensor arrives as it is, q | k | v as one", "[kda][weights]") {
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer(), full_rank_layer()}) {
    INFO(config.heads << " heads of " << config.head_dim);
    const auto device = open_test_device();
    const KdaWeights host = reference::random_weights(config, 8);
    const auto weights = KdaDeviceWeights::upload(device, host);
    CHECK(weights->config == config);
    CHECK(weights->backend() == device);
    const std::vector<bf16> qkv = joined(host.q_proj, host.k_proj, host.v_proj);
    const std::vector<bf16> conv = joined(host.q_conv, host.k_conv, host.v_conv);
    check_tensor<bf16>("qkv_proj", *device, weights->qkv_proj, qkv);
    check_tensor<bf16>("conv", *device, weights->conv, conv);
    check_tensor("f_a_proj", *device, weights->f_a_proj, host.f_a_proj);
    check_tensor("f_b_proj", *device, weights->f_b_proj, host.f_b_proj);
    check_tensor("g_a_proj", *device, weights->g_a_proj, host.g_a_proj);
    check_tensor("g_b_proj", *device, weights->g_b_proj, host.g_b_proj);
    check_tensor("g_b_bias", *device, weights->g_b_bias, host.g_b_bias);
    check_tensor("g_proj", *device, weights->g_proj, host.g_proj);
    check_tensor("b_proj", *device, weights->b_proj, host.b_proj);
    check_tensor("o_proj", *device, weights->o_proj, host.o_proj);
    check_tensor("o_norm", *device, weights->o_norm, host.o_norm);
    check_tensor("a_log", *device, weights->a_log, host.a_log);
    check_tensor("dt_bias", *device, weights->dt_bias, host.dt_bias);
  }
}

TEST_CASE("an upload does not need the host's copy any more", "[kda][weights]") {
  const auto device = open_test_device();
  auto host = std::make_unique<EditableWeights>(reference::random_weights(softplus_layer(), 9));
  const std::vector<bf16> o_proj = host->o_proj;
  const auto weights = KdaDeviceWeights::upload(device, host->view());
  host.reset();
  CHECK(download<bf16>(*device, weights->o_proj, o_proj.size()) == o_proj);
}

TEST_CASE("weights go with their last owner, and keep the device until then", "[kda][weights]") {
  std::shared_ptr<GpuBackend> device = open_test_device();
  const std::weak_ptr<GpuBackend> watch = device;
  auto weights = KdaDeviceWeights::upload(device, reference::random_weights(softplus_layer(), 10));
  CHECK(device->memory_info().live > 0);
  auto second = weights;
  weights.reset();
  CHECK(device->memory_info().live > 0);
  device.reset();
  REQUIRE(watch.lock() != nullptr);
  second.reset();
  CHECK(watch.lock() == nullptr);
}

TEST_CASE("a tensor of the wrong length is refused before anything is allocated", "[kda][weights][refusal]") {
  const auto device = CountingBackend::over(open_test_device());
  const KdaWeights good = reference::random_weights(softplus_layer(), 11);
  const auto refused = [&](std::initializer_list<std::string_view> words, const KdaWeights& weights) {
    expect_error(ErrorCode::invalid_argument, words, [&] { (void)KdaDeviceWeights::upload(device, weights); });
  };
  KdaWeights bad = good;
  bad.dt_bias = bad.dt_bias.first(bad.dt_bias.size() - 1);
  refused({"dt_bias", "127", "128"}, bad);
  bad = good;
  bad.g_b_bias = {};
  refused({"g_b_bias", "0", "128"}, bad);
  bad = good;
  bad.g_proj = bad.q_proj;  // this geometry's output gate is low rank
  refused({"g_proj", "empty"}, bad);
  CHECK(device->created() == 0);
}

TEST_CASE("an upload that does not fit leaves nothing behind", "[kda][weights][refusal]") {
  OpenOptions options;
  options.memory_limit = 4096;
  const auto device = open_test_device(options);
  expect_error(ErrorCode::out_of_device_memory, {"4096"},
               [&] { (void)KdaDeviceWeights::upload(device, reference::random_weights(softplus_layer(), 12)); });
  CHECK(device->memory_info().live == 0);
}

}  // namespace kdart::test
