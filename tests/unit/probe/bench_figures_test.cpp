#include "bench_figures.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <cmath>
#include <string>

#include "kdart/state.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::WithinRel;

KdaConfig mini(std::uint32_t gate_rank, bool bias) {
  KdaConfig config;
  config.hidden_size = 96;
  config.heads = 3;
  config.head_dim = 64;
  config.decay_rank = 16;
  config.output_gate_rank = gate_rank;
  config.output_gate_bias = bias;
  return config;
}

TEST_CASE("the median is the middle value or the mean of the two middle ones", "[probe]") {
  CHECK(median({7.0}) == 7.0);
  CHECK(median({9.0, 1.0, 2.0}) == 2.0);
  CHECK(median({8.0, 1.0, 4.0, 2.0}) == 3.0);
  CHECK(std::isnan(median({})));
}

TEST_CASE("a percentile is a sample, the smallest that enough samples do not exceed", "[probe]") {
  const std::vector<double> ten{10, 9, 8, 7, 6, 5, 4, 3, 2, 1};
  CHECK(percentile(ten, 0.9) == 9.0);
  CHECK(percentile(ten, 0.91) == 10.0);
  CHECK(percentile(ten, 1.0) == 10.0);
  CHECK(percentile(ten, 0.01) == 1.0);
  CHECK(percentile({5.0}, 0.9) == 5.0);
  CHECK(std::isnan(percentile({}, 0.9)));
  CHECK(smallest(ten) == 1.0);
  CHECK(std::isnan(smallest({})));
}

TEST_CASE("the bytes of the weights are those of a layer's tensors", "[probe]") {
  const KdaConfig config = GENERATE(mini(0, false), mini(8, false), mini(8, true));
  const KdaWeights w = reference::random_weights(config, 1);
  std::uint64_t bytes = w.a_log.size_bytes() + w.dt_bias.size_bytes();
  for (const auto& tensor : {w.q_proj, w.k_proj, w.v_proj, w.q_conv, w.k_conv, w.v_conv, w.f_a_proj, w.f_b_proj,
                             w.g_a_proj, w.g_b_proj, w.g_b_bias, w.g_proj, w.b_proj, w.o_proj, w.o_norm}) {
    bytes += tensor.size_bytes();
  }
  CHECK(weight_bytes(config) == bytes);
}

TEST_CASE("the least traffic reads weights once and both states and rows once each way", "[probe]") {
  const KdaConfig config = named_geometry("kimi-linear");
  const Traffic one = traffic_of(config, 1);
  CHECK(one.weights == weight_bytes(config));
  CHECK(one.state == 2 * (KdaState::recurrent_bytes(config) + KdaState::conv_bytes(config)));
  CHECK(one.state == 2 * (32 * 128 * 128 + 3 * 4096 * 4) * 4);
  CHECK(one.activations == 2 * 2304 * 2);
  CHECK(one.total() == one.weights + one.state + one.activations);
  const Traffic many = traffic_of(config, 8192);
  CHECK(many.weights == one.weights);
  CHECK(many.state == one.state);
  CHECK(many.activations == 8192 * one.activations);
}

TEST_CASE("operations are counted per token", "[probe]") {
  const KdaConfig config = mini(8, false);
  const std::uint64_t qkv = 192;
  const std::uint64_t projections = 4 * qkv * 96 + (16 * 96 + qkv * 16) + (8 * 96 + qkv * 8) + 3 * 96;
  const std::uint64_t per_token = 2 * projections + 2 * 3 * qkv * 4 + 7 * 3 * 64 * 64;
  CHECK(flops_of(config, 1) == per_token);
  CHECK(flops_of(config, 4294967295U) == 4294967295U * per_token);
}

TEST_CASE("the core moves its six inputs once and no projection", "[probe]") {
  const KdaConfig config = named_geometry("kimi-linear");
  const Traffic traffic = core_traffic(config, 100);
  CHECK(traffic.weights == (3 * 4096 * 4 + 128) * 2 + (32 + 4096) * 4);
  CHECK(traffic.state == traffic_of(config, 1).state);
  CHECK(traffic.activations == 100 * (5 * 4096 + 32 + 4096) * 2);
  CHECK(core_flops(config, 3) == 3 * (2 * 3 * 4096 * 4 + 7 * 32 * 128 * 128));
  CHECK(core_flops(config, 4294967295U) == 4294967295U * core_flops(config, 1));
}

TEST_CASE("a batch moves one state per sequence each way", "[probe]") {
  const KdaConfig config = named_geometry("kimi-linear");
  const Traffic traffic = recurrent_traffic(config, 256);
  CHECK(traffic.weights == 0);
  CHECK(traffic.state == std::uint64_t{256} * 4 * 1024 * 1024);  // 2 MiB read, 2 MiB written
  CHECK(traffic.activations == 256 * (5 * 4096 + 32) * 4);
  CHECK(recurrent_traffic(config, 65535).state == 65535 * (traffic.state / 256));
  CHECK(recurrent_flops(config, 65535) == std::uint64_t{65535} * 7 * 32 * 128 * 128);
}

TEST_CASE("the floor is bytes over bandwidth", "[probe]") {
  CHECK_THAT(floor_us(4'000'000, 4e12), WithinRel(1.0, 1e-12));
  CHECK_THAT(floor_us(1, 1e6), WithinRel(1.0, 1e-12));
}

TEST_CASE("sets are enough to pass the target and no more than fit", "[probe]") {
  CHECK(rotation_sets(100, 1000, 1'000'000, 1, 64) == 10);
  CHECK(rotation_sets(100, 1001, 1'000'000, 1, 64) == 11);
  CHECK(rotation_sets(2000, 1000, 1'000'000, 1, 64) == 1);
  CHECK(rotation_sets(2000, 1000, 1'000'000, 3, 64) == 3);
  CHECK(rotation_sets(1, 1000, 1'000'000, 1, 64) == 64);
  CHECK(rotation_sets(100, 1000, 450, 1, 64) == 4);
  CHECK(rotation_sets(100, 1000, 10, 1, 64) == 1);
  CHECK(rotation_sets(0, 1000, 10, 2, 64) == 2);
}

TEST_CASE("a set of inputs always meets the same copy of the weights", "[probe]") {
  CHECK(paired_sets(32, 4) == 32);
  CHECK(paired_sets(32, 5) == 30);
  CHECK(paired_sets(3, 4) == 3);
  CHECK(paired_sets(1, 1) == 1);
}

TEST_CASE("the number of calls grows until a sample is long enough", "[probe]") {
  CHECK(next_calls(1, 2.0, 2.0, 4096) == 1);
  CHECK(next_calls(8, 3.0, 2.0, 4096) == 8);
  CHECK(next_calls(10, 0.5, 2.0, 4096) == 44);   // 1.1 * 4 times
  CHECK(next_calls(10, 1.99, 2.0, 4096) == 20);  // at least twice
  CHECK(next_calls(1, 0.001, 2.0, 4096) == 16);  // no trust in one short call
  CHECK(next_calls(1, 0.0, 2.0, 4096) == 16);    // nor in a clock that does not advance
  CHECK(next_calls(1000, 0.01, 2.0, 4096) == 4096);
  CHECK(next_calls(4096, 0.01, 2.0, 4096) == 4096);  // an end to the search
}

}  // namespace
}  // namespace kdart::probe
