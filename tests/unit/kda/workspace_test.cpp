#include "kdart/workspace.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"

namespace kdart::test {
namespace {

using Layout = KdaWorkspace::Layout;

struct Part {
  std::string name;
  std::uint64_t begin, bytes;
};

// Every part with the bytes that its comment in the header promises.
std::vector<Part> parts(const KdaWorkspace& ws) {
  const KdaConfig& c = ws.config();
  const Layout& at = ws.layout();
  const std::uint64_t rows = ws.rows();
  const std::uint64_t padded = (rows + 31) / 32 * 32;
  const std::uint64_t qkv = c.qkv();
  return {{"qkv", at.qkv, rows * 3 * qkv * 2},
          {"f_a", at.f_a, rows * c.decay_rank * 2},
          {"f", at.f, rows * qkv * 2},
          {"b", at.b, rows * c.heads * 2},
          {"g_a", at.g_a, rows * c.output_gate_rank * 2},
          {"z", at.z, rows * qkv * 2},
          {"gate", at.gate, padded * qkv * 4},
          {"beta", at.beta, padded * c.heads * 4},
          {"conv_bf16", at.conv_bf16, rows * 3 * qkv * 2},
          {"q", at.q, padded * qkv * 4},
          {"k", at.k, padded * qkv * 4},
          {"v", at.v, padded * qkv * 4},
          {"gc", at.gc, padded * qkv * 4},
          {"u", at.u, padded * qkv * 4},
          {"w", at.w, padded * qkv * 4},
          {"core", at.core, rows * qkv * 4},
          {"normed", at.normed, rows * qkv * 2},
          {"final_out", at.final_out, std::uint64_t{ws.max_tokens()} * c.hidden_size * 2}};
}

}  // namespace

TEST_CASE("the parts of a workspace are aligned, apart and inside", "[kda][workspace]") {
  const auto device = open_test_device();
  KdaConfig wide = one_head_layer();
  wide.hidden_size = 8192;
  for (const KdaConfig& config : {softplus_layer(), lower_bound_layer(), full_rank_layer(), wide}) {
    for (const auto& [tokens, limit] : {std::pair(1U, 0U), std::pair(33U, 0U), std::pair(70U, 32U)}) {
      const KdaWorkspace ws(device, config, tokens, limit);
      INFO(config.heads << " heads, " << tokens << " tokens, " << limit << " per launch");
      std::vector<Part> all = parts(ws);
      std::sort(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
      for (std::size_t i = 0; i < all.size(); ++i) {
        INFO(all[i].name << ": " << all[i].bytes << " bytes at " << all[i].begin);
        CHECK(all[i].begin % 256 == 0);
        const std::uint64_t end = i + 1 < all.size() ? all[i + 1].begin : ws.layout().total;
        CHECK(all[i].begin + all[i].bytes <= end);
      }
      CHECK(ws.layout().total == KdaWorkspace::bytes(config, tokens, limit));
      // The one part that shares memory, on purpose.
      CHECK(ws.layout().conv_f32 == ws.layout().gc);
      CHECK(ws.layout().conv_f32 + 3 * ((ws.rows() + 31) / 32 * 32) * std::uint64_t{config.qkv()} * 4 <=
            ws.layout().w + ((ws.rows() + 31) / 32 * 32) * std::uint64_t{config.qkv()} * 4);
      // And one that lies over what is dead when it is written, in front of what is not.
      CHECK(ws.layout().unaligned_out == ws.layout().gc);
      CHECK(ws.layout().unaligned_out + ws.rows() * std::uint64_t{config.hidden_size} * 2 <= ws.layout().normed);
      CHECK(ws.final_out() == ws.at(&Layout::final_out));
    }
  }
  CHECK(device->memory_info().live == 0);
}

TEST_CASE("a bound on the tokens in flight bounds the memory", "[kda][workspace]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const KdaWorkspace whole(device, config, 1000);
  const KdaWorkspace pieces(device, config, 1000, 33);
  CHECK(whole.rows() == 1000);
  CHECK(pieces.rows() == 64);  // rounded up to a multiple of 32
  CHECK(pieces.max_tokens() == 1000);
  CHECK(KdaWorkspace::bytes(config, 1000, 33) < KdaWorkspace::bytes(config, 1000) / 4);
  CHECK(KdaWorkspace(device, config, 20, 64).rows() == 20);   // never more than the tokens
  CHECK(KdaWorkspace(device, config, 40, ~0U).rows() == 40);  // and the rounding does not wrap
}

TEST_CASE("sizes do not wrap at 32 bits", "[kda][workspace]") {
  const KdaConfig config = named_geometry("glm-5.3-flash");
  const std::uint64_t million = KdaWorkspace::bytes(config, 1U << 20);
  CHECK(million > (1ULL << 20) * config.qkv() * 4 * 7);
  CHECK(KdaWorkspace::bytes(config, 1U << 20, 4096) < million / 32);
}

TEST_CASE("a workspace that nothing could hold is refused, not wrapped", "[kda][workspace][refusal]") {
  KdaConfig config = full_rank_layer();
  config.heads = 1U << 21;  // qkv 2^28, the largest there is
  const auto device = open_test_device();
  expect_error(ErrorCode::invalid_argument, {"KdaWorkspace", "max_tokens", std::to_string(1ULL << 60)},
               [&] { const KdaWorkspace ws(device, config, ~0U); });
  CHECK(device->memory_info().live == 0);
}

TEST_CASE("a workspace of 0 tokens is refused", "[kda][workspace][refusal]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const auto refused = [&](const auto& call) {
    expect_error(ErrorCode::invalid_argument, {"KdaWorkspace", "max_tokens is 0", "at least 1"}, call);
  };
  refused([&] { (void)KdaWorkspace::bytes(config, 0); });
  refused([&] { const KdaWorkspace ws(device, config, 0); });
  refused([&] { const KdaWorkspace ws(device, config, DevicePtr(0x100), 0); });
  KdaConfig bad = config;
  bad.conv_kernel = 5;
  expect_error(ErrorCode::unsupported, {"5", "4"}, [&] { (void)KdaWorkspace::bytes(bad, 1); });
  expect_error(ErrorCode::unsupported, {"5", "4"}, [&] { const KdaWorkspace ws(device, bad, 1); });
}

TEST_CASE("a workspace sits on the caller's memory", "[kda][workspace]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const std::uint64_t bytes = KdaWorkspace::bytes(config, 40, 32);
  const Buffer memory(device, bytes + 256);
  const std::uint64_t live = device->memory_info().live;
  {
    const KdaWorkspace ws(device, config, memory.get(), 40, 32);
    CHECK(ws.at(&Layout::qkv) == memory.get());
    CHECK(device->memory_info().live == live);
    const KdaWorkspace shifted(device, config, memory.get().offset(256), 40, 32);
    CHECK(shifted.final_out() == ws.final_out().offset(256));
  }
  CHECK(device->memory_info().live == live);
}

TEST_CASE("memory that does not fit a workspace is refused", "[kda][workspace][refusal]") {
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const std::uint64_t bytes = KdaWorkspace::bytes(config, 40);
  const Buffer memory(device, bytes);
  const auto refused = [&](std::initializer_list<std::string_view> words, DevicePtr at) {
    expect_error(ErrorCode::invalid_argument, words, [&] { const KdaWorkspace ws(device, config, at, 40); });
  };
  refused({"memory", "null"}, {});
  refused({"memory", "multiple of 256"}, memory.get().offset(128));
  refused({"memory", std::to_string(bytes), device->info().id}, memory.get().offset(256));
  refused({"memory", std::to_string(bytes)}, DevicePtr(0x10000));
  const auto other = open_test_device();
  expect_error(ErrorCode::invalid_argument, {"memory"},
               [&] { const KdaWorkspace ws(other, config, memory.get(), 40); });
}

}  // namespace kdart::test
