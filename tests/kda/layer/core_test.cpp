// The core alone: an engine that projects by itself gets what the whole layer computes inside.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <span>
#include <utility>
#include <vector>

#include "kdart/kda_kernels.h"
#include "kdart/launch.h"
#include "tests/support/counting_backend.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

constexpr std::uint32_t tokens = 37;  // two chunks and a part

// The layer's projections, done outside it with the same kernels. Each tensor is a buffer of its own.
class Projections {
 public:
  Projections(const KdaLayer& layer, const KdaDeviceWeights& weights, Stream stream)
      : gpu_(layer.backend()), set_(*layer.kernels()), weights_(weights), config_(layer.config()), stream_(stream) {
    const auto rows_of = [&](std::uint32_t width) {
      return Buffer(gpu_, std::uint64_t{tokens} * width * sizeof(bf16));
    };
    q_ = rows_of(config_.qkv()), k_ = rows_of(config_.qkv()), v_ = rows_of(config_.qkv());
    f_a_ = rows_of(config_.decay_rank), f_ = rows_of(config_.qkv());
    b_ = rows_of(config_.heads);
    z_a_ = rows_of(std::max(config_.output_gate_rank, 1U)), z_ = rows_of(config_.qkv());
  }

  [[nodiscard]] KdaCoreInputs project(DevicePtr hidden, bool rows_alone) const {
    const std::uint32_t h = config_.hidden_size;
    const std::uint64_t part = std::uint64_t{config_.qkv()} * h * sizeof(bf16);
    multiply(hidden, weights_.qkv_proj, {}, q_.get(), config_.qkv(), h, rows_alone);
    multiply(hidden, weights_.qkv_proj.offset(part), {}, k_.get(), config_.qkv(), h, rows_alone);
    multiply(hidden, weights_.qkv_proj.offset(2 * part), {}, v_.get(), config_.qkv(), h, rows_alone);
    multiply(hidden, weights_.f_a_proj, {}, f_a_.get(), config_.decay_rank, h, rows_alone);
    multiply(f_a_.get(), weights_.f_b_proj, {}, f_.get(), config_.qkv(), config_.decay_rank, rows_alone);
    multiply(hidden, weights_.b_proj, {}, b_.get(), config_.heads, h, rows_alone);
    if (weights_.g_proj) {
      multiply(hidden, weights_.g_proj, {}, z_.get(), config_.qkv(), h, rows_alone);
    } else {
      multiply(hidden, weights_.g_a_proj, {}, z_a_.get(), config_.output_gate_rank, h, rows_alone);
      multiply(z_a_.get(), weights_.g_b_proj, weights_.g_b_bias, z_.get(), config_.qkv(), config_.output_gate_rank,
               rows_alone);
    }
    return {.q = q_.get(), .k = k_.get(), .v = v_.get(), .f = f_.get(), .b = b_.get(), .z = z_.get()};
  }
  void project_output(DevicePtr y, DevicePtr out, bool rows_alone) const {
    multiply(y, weights_.o_proj, {}, out, config_.hidden_size, config_.qkv(), rows_alone);
  }

 private:
  void multiply(DevicePtr a, DevicePtr weight, DevicePtr bias, DevicePtr c, std::uint32_t n, std::uint32_t k,
                bool rows_alone) const {
    if (!rows_alone) {
      KernelLaunch(gpu_, set_.get("dense_gemm_bf16"))
          .args(kernels::DenseGemmBf16Args{
              .a = a, .b = weight, .bias = bias, .c = c, .m = tokens, .n = n, .k = k, .lda = k, .ldc = n})
          .launch(stream_);
      return;
    }
    for (std::uint32_t t = 0; t < tokens; ++t) {
      KernelLaunch(gpu_, set_.get("dense_gemv_bf16"))
          .args(kernels::DenseGemvBf16Args{.a = a.offset(std::uint64_t{t} * k * sizeof(bf16)),
                                           .b = weight,
                                           .bias = bias,
                                           .c = c.offset(std::uint64_t{t} * n * sizeof(bf16)),
                                           .m = 1,
                                           .n = n,
                                           .k = k,
                                           .lda = k,
                                           .ldc = n})
          .launch(stream_);
    }
  }

  std::shared_ptr<GpuBackend> gpu_;
  const LoadedSet& set_;
  const KdaDeviceWeights& weights_;
  KdaConfig config_;
  Stream stream_;
  Buffer q_, k_, v_, f_a_, f_, b_, z_a_, z_;
};

std::shared_ptr<const KdaDeviceWeights> device_weights(const KdaConfig& config, std::shared_ptr<GpuBackend> backend) {
  return KdaDeviceWeights::upload(std::move(backend), reference::random_weights(config, 53));
}

KdaCoreInputs from_row(const KdaCoreInputs& all, const KdaConfig& c, std::uint32_t row) {
  const std::uint64_t wide = std::uint64_t{row} * c.qkv() * sizeof(bf16);
  return {.q = all.q.offset(wide),
          .k = all.k.offset(wide),
          .v = all.v.offset(wide),
          .f = all.f.offset(wide),
          .b = all.b.offset(std::uint64_t{row} * c.heads * sizeof(bf16)),
          .z = all.z.offset(wide)};
}

}  // namespace

TEST_CASE("decode_k_core computes what the layer does between its projections", "[kda][layer][core]") {
  for (const KdaConfig& config : {softplus_layer(), full_rank_layer()}) {
    const auto weights = device_weights(config, open_test_device());
    LayerRunner runner(weights, tokens);
    const Input input = random_input(config, tokens, 1);
    const Output expected = runner.run(input, decode_each(tokens));

    runner.start(input);
    const Projections projections(runner.layer(), *weights, runner.stream());
    const KdaCoreInputs all = projections.project(runner.hidden(0), true);
    const Buffer y(runner.backend(), std::uint64_t{tokens} * config.qkv() * sizeof(bf16));
    const Buffer recurrent(runner.backend(), KdaState::recurrent_bytes(config));
    const Buffer conv(runner.backend(), KdaState::conv_bytes(config));
    const StateSnapshot snapshot{recurrent.get(), conv.get()};
    // In three calls, a snapshot in the middle one.
    constexpr std::uint32_t widths[] = {1, 19, tokens - 20};
    std::uint32_t first = 0;
    for (const std::uint32_t width : widths) {
      runner.layer().decode_k_core(from_row(all, config, first), width, runner.state(), runner.workspace(),
                                   std::span(&snapshot, width == 19 ? 1 : 0), runner.stream(),
                                   y.get().offset(std::uint64_t{first} * config.qkv() * sizeof(bf16)));
      first += width;
    }
    projections.project_output(y.get(), runner.out(0), true);
    INFO("D " << config.head_dim);
    CHECK(difference(runner.finish(), expected) == "");
    const Output after_two = runner.run(slice(input, 0, 2), decode_each(2));
    CHECK(difference(fetch(*runner.backend(), config, snapshot), HostState{after_two.recurrent, after_two.conv}) == "");
  }
}

TEST_CASE("prefill_core computes what the layer does between its projections", "[kda][layer][core]") {
  for (const KdaConfig& config : {lower_bound_layer(), full_rank_layer()}) {
    const auto weights = device_weights(config, open_test_device());
    for (const std::uint32_t limit : {0U, 32U}) {
      // The products here are the set's own, so the layer's have to be.
      LayerRunner runner(weights, tokens, {.gemm = KdaGemm::own}, limit);
      const Input input = random_input(config, tokens, 2);
      const Output expected = runner.run(input, prefill_whole(tokens));
      runner.start(input);
      const Projections projections(runner.layer(), *weights, runner.stream());
      const KdaCoreInputs all = projections.project(runner.hidden(0), false);
      const Buffer y(runner.backend(), std::uint64_t{tokens} * config.qkv() * sizeof(bf16));
      runner.layer().prefill_core(all, tokens, runner.state(), runner.workspace(), runner.stream(), y.get());
      projections.project_output(y.get(), runner.out(0), false);
      INFO("D " << config.head_dim << ", pieces of " << limit);
      CHECK(difference(runner.finish(), expected) == "");
    }
  }
}

TEST_CASE("core inputs may lie at any multiple of 2", "[kda][layer][core]") {
  const KdaConfig config = softplus_layer();
  const auto weights = device_weights(config, open_test_device());
  LayerRunner runner(weights, 1);
  const Input input = random_input(config, 1, 3);
  const auto core = [&](std::uint64_t shift) {
    std::vector<std::uint16_t> rows(5 * config.qkv() + config.heads + 8);
    const auto source = reference::random_hidden(config, rows.size() / config.hidden_size + 1, 77);
    for (std::size_t i = 0; i + shift / 2 < rows.size(); ++i) rows[i + shift / 2] = source[i].bits;
    const Buffer memory = upload(runner.backend(), rows);
    const Buffer y(runner.backend(), config.qkv() * sizeof(bf16) + 16);
    const auto part = [&](std::uint32_t i) {
      return memory.get().offset(shift + std::uint64_t{i} * config.qkv() * sizeof(bf16));
    };
    const KdaCoreInputs inputs{.q = part(0), .k = part(1), .v = part(2), .f = part(3), .b = part(5), .z = part(4)};
    runner.start(input);
    runner.layer().decode_k_core(inputs, 1, runner.state(), runner.workspace(), {}, runner.stream(),
                                 y.get().offset(shift));
    const Output output = runner.finish();
    return std::pair(download<bf16>(*runner.backend(), y.get().offset(shift), config.qkv()),
                     HostState{output.recurrent, output.conv});
  };
  const auto aligned = core(0);
  for (const std::uint64_t shift : {2U, 6U, 14U}) {
    INFO("shifted by " << shift << " bytes");
    const auto shifted = core(shift);
    CHECK(shifted.first == aligned.first);
    CHECK(difference(shifted.second, aligned.second) == "");
  }
}

TEST_CASE("core calls refuse what they cannot use and change nothing", "[kda][layer][core][refusal]") {
  const KdaConfig config = softplus_layer();
  const auto device = CountingBackend::over(open_test_device());
  const auto weights = device_weights(config, device);
  LayerRunner runner(weights, 4);
  const Input input = random_input(config, 4, 4);
  runner.start(input);
  device->synchronize(runner.stream());
  const Buffer rows(device, 4 * std::uint64_t{config.qkv()} * sizeof(bf16));
  const DevicePtr p = rows.get();
  const KdaCoreInputs good{.q = p, .k = p, .v = p, .f = p, .b = p, .z = p};
  const HostState before = fetch(runner.state());
  const std::uint64_t submitted = device->submitted();
  const auto refused = [&](const KdaCoreInputs& inputs, std::uint32_t count, DevicePtr out,
                           std::initializer_list<std::string_view> words) {
    expect_error(ErrorCode::invalid_argument, words, [&] {
      runner.layer().decode_k_core(inputs, count, runner.state(), runner.workspace(), {}, runner.stream(), out);
    });
    expect_error(ErrorCode::invalid_argument, words, [&] {
      runner.layer().prefill_core(inputs, count, runner.state(), runner.workspace(), runner.stream(), out);
    });
  };
  refused(good, 0, p, {"0 tokens"});
  refused(good, 5, p, {"5 tokens", "at most 4"});
  refused(good, 4, DevicePtr{}, {"out", "null"});
  refused(good, 4, p.offset(1), {"out", "multiple of 2"});
  DevicePtr KdaCoreInputs::* const parts[] = {&KdaCoreInputs::q, &KdaCoreInputs::k, &KdaCoreInputs::v,
                                              &KdaCoreInputs::f, &KdaCoreInputs::b, &KdaCoreInputs::z};
  const char* const names[] = {"inputs.q", "inputs.k", "inputs.v", "inputs.f", "inputs.b", "inputs.z"};
  for (std::size_t i = 0; i < 6; ++i) {
    KdaCoreInputs bad = good;
    bad.*parts[i] = {};
    refused(bad, 4, p, {names[i], "null"});
    bad.*parts[i] = p.offset(3);
    refused(bad, 4, p, {names[i], "multiple of 2"});
  }
  CHECK(device->submitted() == submitted);
  CHECK(difference(fetch(runner.state()), before) == "");
}

}  // namespace kdart::test
