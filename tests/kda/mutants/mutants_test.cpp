// Mutation tests: kernel sets that are wrong in one known way each (make_mutants.py) must fail the check that is there to
// catch the mistake, and the same sources unchanged must pass it.

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/runtime/format.h"
#include "kdart/checkpoint.h"
#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/problems.h"
#include "tests/support/layer_runner.h"
#include "tests/support/options.h"
#include "tools/reference/cases.h"
#include "tools/reference/judge.h"

namespace kdart::test {
namespace {

// The build puts them beside the folder of the test programs.
std::shared_ptr<const KernelSet> mutant(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return KernelSet::from_directory(kernels::kda_contract(), program.parent_path().parent_path() / "mutants" / name);
}

// The build makes mutants for x86-64 alone.
void skip_off_cpu() {
#if !defined(__x86_64__)
  SKIP("mutants are x86-64 images");
#endif
  if (test_device().rfind("cpu", 0) != 0) SKIP("mutants are images for the CPU");
}

OpenOptions mutant_device_options() {
  OpenOptions options = device_options();
  options.cpu_target = "x86-64";
  return options;
}

// --- through the layer ----------------------------------------------------------------------------------------------

struct LayerVerdict {
  bool decode = true;  // every case within its bounds
  bool decode_without_smem = true;
  bool prefill = true;
  std::string text;
};

// One golden checkpoint's short cases through a layer that runs `name`'s kernels.
class GoldenJudge {
 public:
  GoldenJudge(const std::string& name, const std::string& model) : backend_(open_test_device(mutant_device_options())) {
    const std::filesystem::path folder = test_data() / "golden" / model;
    const Checkpoint checkpoint = Checkpoint::open(folder);
    const KdaWeights weights = checkpoint.kda_layer(checkpoint.config().kda_layers.front());
    weights_ = KdaDeviceWeights::upload(backend_, weights);
    for (reference::Case& c : reference::load_cases(folder / "cases.safetensors", weights.config)) {
      if (c.tokens >= 17 && c.tokens <= 20) cases_.push_back(std::move(c));
    }
    REQUIRE(!cases_.empty());
    options_.kernels = backend_->load(mutant(name));
  }

  LayerVerdict judge() {
    LayerVerdict verdict;
    LayerRunner runner(weights_, 20, options_);
    KdaOptions plain = options_;
    plain.without = {"recurrent_smem"};
    LayerRunner without_smem(weights_, 20, plain);
    for (const reference::Case& c : cases_) {
      const auto tokens = static_cast<std::uint32_t>(c.tokens);
      const Bounds decode{c.bounds.decode_out, c.bounds.decode_state};
      if (!passes(runner, c, decode_each(tokens), decode, verdict.text)) verdict.decode = false;
      if (!passes(without_smem, c, decode_each(tokens), decode, verdict.text)) verdict.decode_without_smem = false;
      const Bounds prefill{c.bounds.prefill_out, c.bounds.prefill_state};
      if (!passes(runner, c, prefill_whole(tokens), prefill, verdict.text)) verdict.prefill = false;
    }
    return verdict;
  }

 private:
  struct Bounds {
    double out, recurrent;
  };

  static bool passes(LayerRunner& runner, const reference::Case& c, const Pieces& pieces, Bounds bounds,
                     std::string& text) {
    const Input input{static_cast<std::uint32_t>(c.tokens), c.hidden, c.recurrent_in, c.conv_in};
    const Figures figures = measure(runner.run(input, pieces), {c.out, c.recurrent_out, c.conv_out});
    text += detail::format("{} in {} calls: out {:.5f} of {:.5f}, recurrent {:.5f} of {:.5f}\n", c.name, pieces.size(),
                           figures.out, bounds.out, figures.recurrent, bounds.recurrent);
    return figures.out <= bounds.out && figures.recurrent <= bounds.recurrent && figures.conv_excess <= 0;
  }

  std::shared_ptr<GpuBackend> backend_;
  std::shared_ptr<const KdaDeviceWeights> weights_;
  std::vector<reference::Case> cases_;
  KdaOptions options_;
};

constexpr const char* golden_models[] = {"kimi-linear-mini", "head64-mini"};

// Decode, with either kernel of the recurrence, and prefill must each leave the bounds.
void expect_golden_to_catch(const std::string& name) {
  skip_off_cpu();
  for (const char* model : golden_models) {
    const LayerVerdict verdict = GoldenJudge(name, model).judge();
    INFO(model << "\n" << verdict.text);
    CHECK_FALSE(verdict.decode);
    CHECK_FALSE(verdict.decode_without_smem);
    CHECK_FALSE(verdict.prefill);
  }
}

// --- kernels alone --------------------------------------------------------------------------------------------------

bool within(const std::vector<float>& x, const std::vector<double>& truth,
            std::initializer_list<std::span<const float>> inputs) {
  return reference::compare_f32(x, truth, reference::largest_magnitude(inputs)).pass;
}

// One check of a kernel alone. True when the kernel passes.
using KernelCheck = std::function<bool(KernelRunner&)>;

bool conv_decode_passes(KernelRunner& runner, const ConvProblem& p) {
  return reference::compare_bf16(p.decode(runner).out, p.truth().out).pass;
}
bool conv_prefill_passes(KernelRunner& runner, const ConvProblem& p) {
  std::vector<float> silu;
  const auto result = p.prefill(runner, &silu);
  return within(silu, p.silu_truth().out, {p.state}) && reference::compare_bf16(result.out, p.truth().out).pass;
}

ConvProblem ordinary_rows() {
  return ConvProblem::random(1, 5, 3, 128);
}
// Sums of squares about as large as eps.
ConvProblem tiny_rows() {
  ConvProblem p = ConvProblem::random(2, 5, 3, 128);
  for (float& value : p.state) value *= 0x1p-13F;
  for (bf16& value : p.x) value = to_bf16(to_float(value) * 0x1p-13F);
  return p;
}

bool recurrent_passes(const RecurrentProblem& p, const RecurrentProblem::Result& result) {
  const auto truth = p.truth();
  return within(result.out, truth.out, {p.q, p.k, p.v, p.gate, p.beta, p.state}) &&
         within(result.state, truth.state, {p.q, p.k, p.v, p.gate, p.beta, p.state});
}
// Outputs that are not small beside the largest input, so that a rounding shows.
RecurrentProblem clear_recurrence() {
  return RecurrentProblem::random(3, 2, 2, 128);
}
bool recurrent_check(KernelRunner& runner) {
  const auto p = clear_recurrence();
  return recurrent_passes(p, p.run(runner));
}
bool recurrent_smem_check(KernelRunner& runner) {
  const auto p = clear_recurrence();
  return recurrent_passes(p, p.run_smem(runner, 32));
}

bool chunk_prepare_check(KernelRunner& runner) {
  const auto p = ChunkProblem::random(4, 21, 2, 128);
  const auto prepared = p.prepare(runner);
  const auto truth = p.prepare_truth();
  const auto inside = [&](const std::vector<float>& x, const std::vector<double>& expected) {
    return within(p.by_token(x), expected, {p.k, p.v, p.gate, p.beta});
  };
  return inside(prepared.gc, truth.gc) && inside(prepared.u, truth.u) && inside(prepared.w, truth.w);
}
// On prepared values without a mistake, so that the scan alone is judged.
bool chunk_scan_check(KernelRunner& runner) {
  const auto p = ChunkProblem::random(5, 21, 2, 128);
  KernelRunner unmutated(mutant_device_options(), mutant("unmutated"));
  const auto prepared = p.prepare(unmutated);
  const auto scanned = p.scan(runner, prepared);
  const auto truth = p.scan_truth(prepared);
  const auto& [gc, u, w] = prepared;
  return within(scanned.out, truth.out, {p.q, p.k, gc, u, w, p.state}) &&
         within(scanned.state, truth.state, {p.q, p.k, gc, u, w, p.state});
}

bool gate_check(KernelRunner& runner) {
  for (const GateLaw law : {GateLaw::softplus, GateLaw::lower_bound}) {
    const auto p = GateProblem::random(6, 5, 2, 64, law);
    if (!within(p.run(runner), p.truth(), {p.dt_bias, p.a_log})) return false;
  }
  return true;
}

bool o_norm_check(KernelRunner& runner) {
  const auto p = NormProblem::random(7, 5, 3, 128);
  return reference::compare_bf16(p.run(runner), p.truth()).pass;
}

struct NamedCheck {
  const char* name;
  KernelCheck passes;
};

// Which kernels each mutant spoils, as their own tests see it.
struct Spoiled {
  const char* mutant;
  std::vector<NamedCheck> checks;
};

std::vector<Spoiled> spoiled_kernels() {
  const NamedCheck decode_tiny{"conv_decode, tiny rows", [](auto& r) { return conv_decode_passes(r, tiny_rows()); }};
  const NamedCheck prefill_tiny{"l2, tiny rows", [](auto& r) { return conv_prefill_passes(r, tiny_rows()); }};
  const NamedCheck decode{"conv_decode", [](auto& r) { return conv_decode_passes(r, ordinary_rows()); }};
  const NamedCheck prefill{"conv_prefill", [](auto& r) { return conv_prefill_passes(r, ordinary_rows()); }};
  const NamedCheck recurrent{"recurrent", recurrent_check};
  const NamedCheck smem{"recurrent_smem", recurrent_smem_check};
  const NamedCheck prepare{"chunk_prepare", chunk_prepare_check};
  const NamedCheck scan{"chunk_scan", chunk_scan_check};
  const NamedCheck gate{"gate", gate_check};
  const NamedCheck o_norm{"o_norm", o_norm_check};
  return {
      {"decay_after_update", {recurrent, smem, prepare}},
      {"decay_per_head", {recurrent, smem, prepare}},
      {"silu_in_o_norm", {o_norm}},
      {"l2_eps_outside_root", {decode_tiny, prefill_tiny}},
      {"norm_eps_outside_root", {o_norm}},
      {"l2_eps_1e-5", {decode_tiny, prefill_tiny}},
      {"beta_left_out", {recurrent, smem, prepare}},
      {"state_transposed", {recurrent, smem, scan}},
      {"silu_rounded_before_l2", {decode, prefill}},
      {"core_rounded", {recurrent, smem, scan}},
      {"gate_rounded", {gate}},
      {"pads_multiplied_away", {prepare, scan}},
  };
}

}  // namespace

TEST_CASE("mutants: the unmutated sources pass what catches the others", "[mutants]") {
  skip_off_cpu();
  for (const char* model : golden_models) {
    const LayerVerdict verdict = GoldenJudge("unmutated", model).judge();
    INFO(model << "\n" << verdict.text);
    CHECK(verdict.decode);
    CHECK(verdict.decode_without_smem);
    CHECK(verdict.prefill);
  }
  KernelRunner runner(mutant_device_options(), mutant("unmutated"));
  for (const Spoiled& spoiled : spoiled_kernels()) {
    for (const NamedCheck& check : spoiled.checks) {
      INFO(check.name);
      CHECK(check.passes(runner));
    }
  }
}

TEST_CASE("mutants: each fails the bounds of the kernels it spoils", "[mutants]") {
  skip_off_cpu();
  for (const Spoiled& spoiled : spoiled_kernels()) {
    KernelRunner runner(mutant_device_options(), mutant(spoiled.mutant));
    for (const NamedCheck& check : spoiled.checks) {
      INFO(spoiled.mutant << ": " << check.name);
      CHECK_FALSE(check.passes(runner));
    }
  }
}

TEST_CASE("mutants: golden data catches a decay after the update", "[mutants]") {
  expect_golden_to_catch("decay_after_update");
}
TEST_CASE("mutants: golden data catches a decay per head", "[mutants]") {
  expect_golden_to_catch("decay_per_head");
}
TEST_CASE("mutants: golden data catches SiLU in the output norm", "[mutants]") {
  expect_golden_to_catch("silu_in_o_norm");
}
TEST_CASE("mutants: golden data catches eps outside the root of the L2 norm", "[mutants]") {
  expect_golden_to_catch("l2_eps_outside_root");
}
TEST_CASE("mutants: golden data catches eps outside the root of the output norm", "[mutants]") {
  expect_golden_to_catch("norm_eps_outside_root");
}
TEST_CASE("mutants: golden data catches an L2 eps of 1e-5", "[mutants]") {
  expect_golden_to_catch("l2_eps_1e-5");
}
TEST_CASE("mutants: golden data catches a beta left out", "[mutants]") {
  expect_golden_to_catch("beta_left_out");
}
TEST_CASE("mutants: golden data catches k and v swapped in the state", "[mutants]") {
  expect_golden_to_catch("state_transposed");
}

TEST_CASE("mutants: NaN in the pads catches a product instead of a select, through the layer", "[mutants]") {
  skip_off_cpu();
  const auto backend = open_test_device(mutant_device_options());
  const std::filesystem::path folder = test_data() / "golden" / "head64-mini";
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const KdaWeights weights = checkpoint.kda_layer(checkpoint.config().kda_layers.front());
  const Input input = random_input(weights.config, 17, 1);
  const auto device_weights = KdaDeviceWeights::upload(backend, weights);
  const auto run = [&](const std::string& name, float pad) {
    KdaOptions options;
    options.kernels = backend->load(mutant(name));
    LayerRunner runner(device_weights, input.tokens, options);
    runner.start(input);
    runner.layer().prefill_with_pad_fill(runner.hidden(0), input.tokens, runner.state(), runner.workspace(),
                                         runner.stream(), pad, runner.out(0));
    return runner.finish();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(difference(run("unmutated", nan), run("unmutated", 0.0F)) == "");
  CHECK(difference(run("pads_multiplied_away", nan), run("pads_multiplied_away", 0.0F)) != "");
}

}  // namespace kdart::test
