#include "kdart/config.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>

#include "tests/support/expect_error.h"

namespace kdart {
namespace {

using test::expect_error;

KdaConfig valid() {
  return named_geometry("glm-5.3-flash");
}

// `spoil` changes one field of a valid config; validation must then fail so.
template <typename Spoil>
void refused(ErrorCode code, std::initializer_list<std::string_view> parts, Spoil spoil) {
  KdaConfig config = valid();
  spoil(config);
  expect_error(code, parts, [&] { config.validate(); });
}

TEST_CASE("config: gate laws are spelled as in the enum") {
  CHECK(to_string(GateLaw::softplus) == "softplus");
  CHECK(to_string(GateLaw::lower_bound) == "lower_bound");
  CHECK(to_string(static_cast<GateLaw>(2)) == "unknown");
}

TEST_CASE("config: the named geometries are the published ones") {
  CHECK(geometry_names() == std::vector<std::string_view>{"kimi-linear", "kimi-k3", "glm-5.3-flash"});
  const KdaConfig linear = named_geometry("kimi-linear");
  CHECK(linear.hidden_size == 2304);
  CHECK(linear.heads == 32);
  CHECK(linear.output_gate_rank == 128);
  CHECK(linear.gate_law == GateLaw::softplus);
  CHECK(linear.gate_lower_bound == 0.0F);
  const KdaConfig k3 = named_geometry("kimi-k3");
  CHECK(k3.hidden_size == 7168);
  CHECK(k3.heads == 96);
  CHECK(k3.output_gate_rank == 0);  // full rank
  CHECK(k3.gate_law == GateLaw::lower_bound);
  const KdaConfig glm = named_geometry("glm-5.3-flash");
  CHECK(glm.hidden_size == 4096);
  CHECK(glm.heads == 64);
  CHECK(glm.output_gate_rank == 128);
  CHECK(glm.gate_lower_bound == -5.0F);
  for (const auto name : geometry_names()) {
    const KdaConfig config = named_geometry(name);
    INFO(name);
    CHECK(config.head_dim == 128);
    CHECK(config.decay_rank == 128);
    CHECK(config.conv_kernel == 4);
    CHECK_FALSE(config.output_gate_bias);
    CHECK(config.rms_norm_eps == 1e-5F);
    CHECK(config.l2_eps == 1e-6F);
    CHECK_NOTHROW(config.validate());
  }
}

TEST_CASE("config: an unknown geometry is refused with the names that are known") {
  expect_error(ErrorCode::invalid_argument, {"'glm'", "kimi-linear, kimi-k3, glm-5.3-flash"},
               [] { (void)named_geometry("glm"); });
  expect_error(ErrorCode::invalid_argument, {"'\\x1b[2J'"}, [] { (void)named_geometry("\x1b[2J"); });
}

TEST_CASE("config: sizes follow from the geometry, in 64 bits") {
  KdaConfig config = named_geometry("kimi-k3");
  CHECK(config.qkv() == 12288);
  CHECK(config.conv_channels() == 36864);
  CHECK(config.recurrent_elements() == 96U * 128 * 128);
  CHECK(config.conv_elements() == 36864U * 4);
  config.heads = 1U << 21;
  CHECK(config.recurrent_elements() == std::uint64_t{1} << 35);
  CHECK_NOTHROW(config.validate());  // qkv is 2^28
}

TEST_CASE("config: what no kernel handles is unsupported, by name") {
  for (const std::uint32_t dim : {0U, 1U, 32U, 96U, 127U, 192U, 256U}) {
    refused(ErrorCode::unsupported, {"head_dim " + std::to_string(dim), "64 or 128"},
            [&](auto& c) { c.head_dim = dim; });
  }
  refused(ErrorCode::unsupported, {"3 taps", "must be 4"}, [](auto& c) { c.conv_kernel = 3; });
  refused(ErrorCode::unsupported, {"hidden_size 4100", "multiple of 8"}, [](auto& c) { c.hidden_size = 4100; });
  refused(ErrorCode::unsupported, {"decay_rank 12"}, [](auto& c) { c.decay_rank = 12; });
  refused(ErrorCode::unsupported, {"output_gate_rank 4"}, [](auto& c) { c.output_gate_rank = 4; });
}

TEST_CASE("config: zero and oversized fields are refused") {
  refused(ErrorCode::invalid_argument, {"hidden_size is 0"}, [](auto& c) { c.hidden_size = 0; });
  refused(ErrorCode::invalid_argument, {"heads is 0"}, [](auto& c) { c.heads = 0; });
  refused(ErrorCode::invalid_argument, {"decay_rank is 0"}, [](auto& c) { c.decay_rank = 0; });
  refused(ErrorCode::invalid_argument, {"hidden_size", "268435456"}, [](auto& c) { c.hidden_size = 0xFFFFFFF8U; });
  refused(ErrorCode::invalid_argument, {"heads x head_dim"}, [](auto& c) { c.heads = (1U << 21) + 1; });
  // Where heads x head_dim would wrap to a small number in 32 bits.
  refused(ErrorCode::invalid_argument, {"heads"}, [](auto& c) { c.heads = (1U << 25) + 1; });
  refused(ErrorCode::invalid_argument, {"output_gate_bias"}, [](auto& c) {
    c.output_gate_rank = 0;
    c.output_gate_bias = true;
  });
}

TEST_CASE("config: the lower bound belongs to its gate law and its range") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float bound : {0.0F, 3.0F, -5.0001F, -std::numeric_limits<float>::infinity(), nan}) {
    refused(ErrorCode::invalid_argument, {"gate_lower_bound", "[-5, 0)"}, [&](auto& c) { c.gate_lower_bound = bound; });
  }
  for (const float bound : {-5.0F, -0.001F, -std::numeric_limits<float>::denorm_min()}) {
    KdaConfig config = valid();
    config.gate_lower_bound = bound;
    CHECK_NOTHROW(config.validate());
  }
  refused(ErrorCode::invalid_argument, {"gate_lower_bound is -5", "softplus"},
          [](auto& c) { c.gate_law = GateLaw::softplus; });
  refused(ErrorCode::invalid_argument, {"gate_law is 7"}, [](auto& c) { c.gate_law = static_cast<GateLaw>(7); });
}

TEST_CASE("config: an eps must be positive and finite") {
  for (const float eps : {0.0F, -1e-5F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    refused(ErrorCode::invalid_argument, {"rms_norm_eps"}, [&](auto& c) { c.rms_norm_eps = eps; });
    refused(ErrorCode::invalid_argument, {"l2_eps"}, [&](auto& c) { c.l2_eps = eps; });
  }
}

}  // namespace
}  // namespace kdart
