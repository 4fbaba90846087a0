#include "tests/kda/kernels/problems.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <limits>
#include <string>

#include "kdart/kda_kernels.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr bf16 bf16_nan{0x7FC0};

}  // namespace

// --- projections ----------------------------------------------------------------------------------------------------

GemmProblem GemmProblem::random(std::uint64_t seed, std::uint32_t m, std::uint32_t n, std::uint32_t k, bool bias) {
  Random random(seed);
  GemmProblem p{m, n, k, k + 24, n + 5, {}, {}, {}};
  const std::vector<bf16> rows = random.bf16_normals(std::size_t{m} * k, 1.0);
  p.a = strided<bf16>(rows, k, p.lda, bf16_nan);
  p.b = random.bf16_normals(std::size_t{n} * k, 1 / std::sqrt(static_cast<double>(k)));
  if (bias) p.bias = random.bf16_normals(n, 0.5);
  return p;
}

GemmProblem GemmProblem::rows(std::uint32_t first, std::uint32_t count) const {
  GemmProblem p = *this;
  p.m = count;
  const auto begin = a.begin() + static_cast<std::ptrdiff_t>(std::size_t{first} * lda);
  p.a.assign(begin, begin + static_cast<std::ptrdiff_t>((std::size_t{count} - 1) * lda + k));
  return p;
}

template <class Args>
std::vector<bf16> GemmProblem::run(KernelRunner& runner) const {
  const auto device_a = runner.input(a, 16);
  const auto device_b = runner.input(b, 16);
  const auto device_bias = bias.empty() ? DeviceArray<bf16>{} : runner.input(bias);
  const auto c = runner.output<bf16>((std::size_t{m} - 1) * ldc + n);
  runner.run(Args{.a = device_a.get(),
                  .b = device_b.get(),
                  .bias = device_bias.get(),
                  .c = c.get(),
                  .m = m,
                  .n = n,
                  .k = k,
                  .lda = lda,
                  .ldc = ldc});
  const std::vector<bf16> rows = c.read();
  REQUIRE(gaps_unwritten(rows, m, n, ldc));
  return packed(rows, m, n, ldc);
}
template std::vector<bf16> GemmProblem::run<kernels::DenseGemmBf16Args>(KernelRunner&) const;
template std::vector<bf16> GemmProblem::run<kernels::DenseGemvBf16Args>(KernelRunner&) const;
template std::vector<bf16> GemmProblem::run<kernels::DenseGemvBf16BatchmArgs>(KernelRunner&) const;

std::vector<double> GemmProblem::truth() const {
  return reference::gemm(a, b, bias, {m, n, k, lda});
}

// --- gate -----------------------------------------------------------------------------------------------------------

GateProblem GateProblem::random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads, std::uint32_t head_dim,
                                GateLaw law) {
  Random random(seed);
  const std::size_t width = std::size_t{heads} * head_dim;
  GateProblem p{tokens, heads, head_dim, law, law == GateLaw::lower_bound ? -5.0F : 0.0F, {}, {}, {}};
  p.f = random.bf16_normals(tokens * width, 2.0);
  p.dt_bias = random.normals(width, 2.0);
  p.a_log = random.uniforms(heads, 0.0, 2.77);
  return p;
}

std::vector<float> GateProblem::run(KernelRunner& runner) const {
  const auto device_f = runner.input(f);
  const auto device_dt_bias = runner.input(dt_bias);
  const auto device_a_log = runner.input(a_log);
  const auto out = runner.output<float>(f.size());
  runner.run(kernels::GateArgs{.f = device_f.get(),
                               .dt_bias = device_dt_bias.get(),
                               .a_log = device_a_log.get(),
                               .out = out.get(),
                               .tokens = tokens,
                               .heads = heads,
                               .head_dim = head_dim,
                               .law = static_cast<std::uint32_t>(law),
                               .lower_bound = lower_bound});
  return out.read();
}

std::vector<double> GateProblem::truth() const {
  return reference::gate(f, dt_bias, a_log, {tokens, heads, head_dim}, law, lower_bound);
}

void GateProblem::expect_truth(std::string_view what, KernelRunner& runner) const {
  expect_f32(what, run(runner), truth(), {dt_bias, a_log});
}

// --- convolution ----------------------------------------------------------------------------------------------------

ConvProblem ConvProblem::random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads, std::uint32_t head_dim) {
  Random random(seed);
  ConvProblem p{.tokens = tokens, .heads = heads, .head_dim = head_dim, .state = {}, .x = {}, .w = {}};
  p.state = rounded(random.normals(std::size_t{p.channels()} * taps, 1.0));
  p.x = random.bf16_normals(std::size_t{tokens} * p.channels(), 1.0);
  p.w = random.bf16_normals(std::size_t{p.channels()} * taps, 0.5);
  return p;
}

ConvProblem::Result ConvProblem::decode(KernelRunner& runner) const {
  const std::uint32_t x_stride = channels() + 3;
  const std::uint32_t out_stride = channels() + 5;
  const auto device_state = runner.inout(state);
  const auto device_x = runner.input(strided<bf16>(x, channels(), x_stride, bf16_nan));
  const auto device_w = runner.input(w);
  const auto out = runner.output<bf16>((std::size_t{tokens} - 1) * out_stride + channels());
  for (std::uint64_t t = 0; t < tokens; ++t) {
    runner.launch(kernels::ConvDecodeArgs{.state = device_state.get(),
                                          .x = device_x.get().offset(t * x_stride * sizeof(bf16)),
                                          .w = device_w.get(),
                                          .out = out.get().offset(t * out_stride * sizeof(bf16)),
                                          .slots = {},
                                          .slot_stride = state.size(),
                                          .slot_count = 1,
                                          .rows = 1,
                                          .channels = channels(),
                                          .taps = taps,
                                          .qk_channels = qk_channels(),
                                          .head_dim = head_dim,
                                          .l2_eps = l2_eps,
                                          .x_stride = x_stride,
                                          .out_stride = out_stride});
  }
  runner.verify();
  const std::vector<bf16> rows = out.read();
  REQUIRE(gaps_unwritten(rows, tokens, channels(), out_stride));
  return {packed(rows, tokens, channels(), out_stride), device_state.read()};
}

ConvProblem::Result ConvProblem::prefill(KernelRunner& runner, std::vector<float>* silu) const {
  const std::uint32_t x_stride = channels() + 3;
  const std::uint32_t out_stride = channels() + 1;
  const auto device_state = runner.inout(state);
  const auto device_x = runner.input(strided<bf16>(x, channels(), x_stride, bf16_nan));
  const auto device_w = runner.input(w);
  const auto out = runner.output<float>((std::size_t{tokens} - 1) * out_stride + channels());
  runner.run(kernels::ConvPrefillArgs{.state = device_state.get(),
                                      .x = device_x.get(),
                                      .w = device_w.get(),
                                      .out = out.get(),
                                      .channels = channels(),
                                      .taps = taps,
                                      .tokens = tokens,
                                      .x_stride = x_stride,
                                      .out_stride = out_stride});
  const std::vector<float> rows = out.read();
  REQUIRE(gaps_unwritten(rows, tokens, channels(), out_stride));
  const std::vector<float> activated = packed(rows, tokens, channels(), out_stride);
  if (silu != nullptr) *silu = activated;
  return {l2(runner, activated), device_state.read()};
}

std::vector<bf16> ConvProblem::l2(KernelRunner& runner, const std::vector<float>& in) const {
  const std::uint32_t in_stride = channels() + 1;
  const std::uint32_t out_stride = channels() + 5;
  const auto device_in = runner.input(strided<float>(in, channels(), in_stride, nan));
  const auto out = runner.output<bf16>((std::size_t{tokens} - 1) * out_stride + channels());
  runner.run(kernels::L2Args{.in = device_in.get(),
                             .out = out.get(),
                             .tokens = tokens,
                             .channels = channels(),
                             .qk_channels = qk_channels(),
                             .head_dim = head_dim,
                             .l2_eps = l2_eps,
                             .in_stride = in_stride,
                             .out_stride = out_stride});
  const std::vector<bf16> rows = out.read();
  REQUIRE(gaps_unwritten(rows, tokens, channels(), out_stride));
  return packed(rows, tokens, channels(), out_stride);
}

reference::ConvResult ConvProblem::truth() const {
  return reference::conv(state, x, w, {tokens, channels(), qk_channels(), head_dim, channels(), l2_eps});
}

reference::ConvResult ConvProblem::silu_truth() const {
  return reference::conv_silu(state, x, w, {tokens, channels(), qk_channels(), head_dim, channels(), l2_eps});
}

void ConvProblem::expect_truth(std::string_view what, KernelRunner& runner) const {
  const std::string name(what);
  const reference::ConvResult expected = truth();
  const Result by_token = decode(runner);
  expect_bf16("conv_decode, " + name, by_token.out, expected.out);
  CHECK(same_bits(live_slots(by_token.state), live_slots(expected.state)));

  std::vector<float> silu;
  const Result at_once = prefill(runner, &silu);
  expect_f32("conv_prefill, " + name, silu, silu_truth().out, {state});
  expect_bf16("l2, " + name, at_once.out, reference::l2(silu, channels(), qk_channels(), head_dim, l2_eps));
  expect_bf16("conv_prefill and l2, " + name, at_once.out, expected.out);
  CHECK(same_bits(live_slots(at_once.state), live_slots(expected.state)));
  CHECK(same_bits(at_once.out, by_token.out));
}

std::vector<float> live_slots(const std::vector<float>& window) {
  std::vector<float> result;
  result.reserve(window.size());
  for (std::size_t i = 0; i < window.size(); ++i) {
    if (i % ConvProblem::taps != 0) result.push_back(window[i]);
  }
  return result;
}

// --- recurrence -----------------------------------------------------------------------------------------------------

RecurrentProblem RecurrentProblem::random(std::uint64_t seed, std::uint32_t rows, std::uint32_t heads,
                                          std::uint32_t head_dim) {
  Random random(seed);
  RecurrentProblem p{.rows = rows,
                     .heads = heads,
                     .head_dim = head_dim,
                     .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
                     .q = {},
                     .k = {},
                     .v = {},
                     .gate = {},
                     .beta = {},
                     .state = {},
                     .slot_stride = std::uint64_t{heads} * head_dim * head_dim,
                     .slot_count = rows,
                     .slots = {}};
  const std::size_t elements = rows * p.width();
  p.q = random.normals(elements, 1.0);
  p.k = random.normals(elements, 1.0);
  make_unit_rows(p.q, head_dim);
  make_unit_rows(p.k, head_dim);
  p.v = rounded(random.normals(elements, 1.0));
  p.gate = random.uniforms(elements, -5.0, 0.0);
  p.beta = random.uniforms(std::size_t{rows} * heads, 0.0, 1.0);
  p.state = random.normals(rows * p.slot_stride, 1.0);
  return p;
}

namespace {

// The fields that the two kernels share, filled; each array at a stride of its own, its gaps NaN.
struct RecurrentMemory {
  RecurrentMemory(const RecurrentProblem& p, KernelRunner& runner)
      : width(static_cast<std::uint32_t>(p.width())),
        q(runner.input(strided<float>(p.q, width, width + 1, nan))),
        k(runner.input(strided<float>(p.k, width, width + 2, nan))),
        v(runner.input(strided<float>(p.v, width, width + 3, nan))),
        gate(runner.input(strided<float>(p.gate, width, width + 4, nan))),
        beta(runner.input(strided<float>(p.beta, p.heads, p.heads + 5, nan))),
        state(runner.inout(p.state)),
        out(runner.output<float>((std::size_t{p.rows} - 1) * (width + 6) + width)),
        slots(p.slots ? runner.input(*p.slots) : DeviceArray<std::uint32_t>{}) {}

  template <class Args>
  void fill(const RecurrentProblem& p, Args& args) const {
    args.q = q.get(), args.q_stride = width + 1;
    args.k = k.get(), args.k_stride = width + 2;
    args.v = v.get(), args.v_stride = width + 3;
    args.gate = gate.get(), args.gate_stride = width + 4;
    args.beta = beta.get(), args.beta_stride = p.heads + 5;
    args.out = out.get(), args.out_stride = width + 6;
    args.state = state.get(), args.slots = slots.get();
    args.slot_stride = p.slot_stride, args.slot_count = p.slot_count;
    args.rows = p.rows;
    args.key_heads = args.value_heads = p.heads;
    args.key_dim = args.value_dim = p.head_dim;
    args.scale = p.scale;
  }

  [[nodiscard]] RecurrentProblem::Result read(const RecurrentProblem& p) const {
    const std::vector<float> rows = out.read();
    REQUIRE(gaps_unwritten(rows, p.rows, width, width + 6));
    return {packed(rows, p.rows, width, width + 6), state.read()};
  }

  std::uint32_t width;
  DeviceArray<float> q, k, v, gate, beta, state, out;
  DeviceArray<std::uint32_t> slots;
};

}  // namespace

RecurrentProblem::Result RecurrentProblem::run(KernelRunner& runner) const {
  const RecurrentMemory memory(*this, runner);
  kernels::RecurrentArgs args{};
  memory.fill(*this, args);
  runner.run(args);
  return memory.read(*this);
}

RecurrentProblem::Result RecurrentProblem::run_smem(KernelRunner& runner, std::uint32_t v_per_block) const {
  const RecurrentMemory memory(*this, runner);
  kernels::RecurrentSmemArgs args{};
  memory.fill(*this, args);
  args.v_per_block = v_per_block;
  runner.run(args);
  return memory.read(*this);
}

RecurrentProblem::Truth RecurrentProblem::truth() const {
  Truth truth{std::vector<double>(rows * width()), {state.begin(), state.end()}};
  const std::size_t elements = width() * head_dim;
  for (std::uint32_t r = 0; r < rows; ++r) {
    const std::uint32_t slot = slots ? (*slots)[r] : r;
    if (slot >= slot_count) continue;  // padding: out is 0
    const auto row = [&](const std::vector<float>& x, std::size_t n) { return std::span(x).subspan(r * n, n); };
    const auto step = reference::recurrent_step(
        row(q, width()), row(k, width()), row(v, width()), row(gate, width()), row(beta, heads),
        std::span(state).subspan(slot * slot_stride, elements), heads, head_dim, scale);
    std::copy(step.out.begin(), step.out.end(), truth.out.begin() + static_cast<std::ptrdiff_t>(r * width()));
    std::copy(step.state.begin(), step.state.end(),
              truth.state.begin() + static_cast<std::ptrdiff_t>(slot * slot_stride));
  }
  return truth;
}

void RecurrentProblem::expect_truth(std::string_view what, const Result& result) const {
  const Truth expected = truth();
  expect_f32(std::string(what) + ", out", result.out, expected.out, {q, k, v, gate, beta, state});
  expect_f32(std::string(what) + ", state", result.state, expected.state, {q, k, v, gate, beta, state});
}

// --- chunks ---------------------------------------------------------------------------------------------------------

ChunkProblem ChunkProblem::random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads, std::uint32_t head_dim,
                                  std::uint32_t chunk) {
  Random random(seed);
  const std::size_t elements = std::size_t{tokens} * heads * head_dim;
  ChunkProblem p{.tokens = tokens,
                 .heads = heads,
                 .head_dim = head_dim,
                 .chunk = chunk,
                 .scale = 1 / std::sqrt(static_cast<float>(head_dim)),
                 .q = random.normals(elements, 1.0),
                 .k = random.normals(elements, 1.0),
                 .v = rounded(random.normals(elements, 1.0)),
                 .gate = random.uniforms(elements, -5.0, 0.0),
                 .beta = random.uniforms(std::size_t{tokens} * heads, 0.0, 1.0),
                 .state = random.normals(std::size_t{heads} * head_dim * head_dim, 1.0),
                 .pad = nan};
  make_unit_rows(p.q, head_dim);
  make_unit_rows(p.k, head_dim);
  for (std::size_t i = 0; i < elements; i += 3) p.gate[i] *= 0.01F;  // slow channels between fast ones
  return p;
}

namespace {

std::vector<float> padded(const std::vector<float>& x, std::size_t count, float pad) {
  std::vector<float> result = x;
  result.resize(count, pad);
  return result;
}

}  // namespace

ChunkProblem::Prepared ChunkProblem::prepare(KernelRunner& runner) const {
  const std::size_t count = shape().padded() * heads * head_dim;
  const auto device_k = runner.input(padded(k, count, pad));
  const auto device_v = runner.input(padded(v, count, pad));
  const auto device_gate = runner.input(padded(gate, count, pad));
  const auto device_beta = runner.input(padded(beta, shape().padded() * heads, pad));
  const auto gc = runner.output<float>(count);
  const auto u = runner.output<float>(count);
  const auto w = runner.output<float>(count);
  runner.run(kernels::ChunkPrepareArgs{.k = device_k.get(),
                                       .v = device_v.get(),
                                       .gate = device_gate.get(),
                                       .beta = device_beta.get(),
                                       .gc = gc.get(),
                                       .u = u.get(),
                                       .w = w.get(),
                                       .key_heads = heads,
                                       .value_heads = heads,
                                       .key_dim = head_dim,
                                       .value_dim = head_dim,
                                       .chunk = chunk,
                                       .tokens = tokens});
  return {gc.read(), u.read(), w.read()};
}

reference::Prepared ChunkProblem::prepare_truth() const {
  return reference::chunk_prepare(k, v, gate, beta, shape());
}

ChunkProblem::Scanned ChunkProblem::scan(KernelRunner& runner, const Prepared& prepared) const {
  const std::size_t count = shape().padded() * heads * head_dim;
  const auto device_q = runner.input(padded(q, count, pad));
  const auto device_k = runner.input(padded(k, count, pad));
  const auto gc = runner.input(prepared.gc);
  const auto u = runner.input(prepared.u);
  const auto w = runner.input(prepared.w);
  const auto device_state = runner.inout(state);
  const auto out = runner.output<float>(count);
  runner.run(kernels::ChunkScanArgs{.q = device_q.get(),
                                    .k = device_k.get(),
                                    .gc = gc.get(),
                                    .u = u.get(),
                                    .w = w.get(),
                                    .state = device_state.get(),
                                    .out = out.get(),
                                    .key_heads = heads,
                                    .value_heads = heads,
                                    .key_dim = head_dim,
                                    .value_dim = head_dim,
                                    .chunk = chunk,
                                    .chunks = static_cast<std::uint32_t>(shape().chunks()),
                                    .tokens = tokens,
                                    .scale = scale});
  std::vector<float> rows = out.read();
  REQUIRE(unwritten(rows, q.size(), rows.size() - q.size()));
  rows.resize(q.size());
  return {rows, device_state.read()};
}

std::vector<float> ChunkProblem::by_token(const std::vector<float>& by_head) const {
  const std::size_t rows = shape().padded();
  std::vector<float> result(by_head.size());
  for (std::size_t h = 0; h < heads; ++h) {
    for (std::size_t t = 0; t < rows; ++t) {
      for (std::size_t c = 0; c < head_dim; ++c) {
        result[(t * heads + h) * head_dim + c] = by_head[(h * rows + t) * head_dim + c];
      }
    }
  }
  return result;
}

reference::Recurrence ChunkProblem::scan_truth(const Prepared& prepared) const {
  return reference::chunk_scan(q, k, by_token(prepared.gc), by_token(prepared.u), by_token(prepared.w), state, shape(),
                               scale);
}

void ChunkProblem::expect_truth(std::string_view what, KernelRunner& runner) const {
  const std::string name(what);
  const Prepared prepared = prepare(runner);
  const reference::Prepared expected = prepare_truth();
  expect_f32("chunk_prepare gc, " + name, by_token(prepared.gc), expected.gc, {k, v, gate, beta});
  expect_f32("chunk_prepare u, " + name, by_token(prepared.u), expected.u, {k, v, gate, beta});
  expect_f32("chunk_prepare w, " + name, by_token(prepared.w), expected.w, {k, v, gate, beta});

  const Scanned scanned = scan(runner, prepared);
  const reference::Recurrence truth = scan_truth(prepared);
  const auto& [gc, u, w] = prepared;
  expect_f32("chunk_scan out, " + name, scanned.out, truth.out, {q, k, gc, u, w, state});
  expect_f32("chunk_scan state, " + name, scanned.state, truth.state, {q, k, gc, u, w, state});
}

// --- output norm ----------------------------------------------------------------------------------------------------

NormProblem NormProblem::random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads, std::uint32_t head_dim) {
  Random random(seed);
  const std::size_t elements = std::size_t{tokens} * heads * head_dim;
  return {tokens,
          heads,
          head_dim,
          1e-5F,
          random.normals(elements, 0.1),
          random.bf16_normals(elements, 2.0),
          random.bf16_normals(head_dim, 0.2, 1.0)};
}

std::vector<bf16> NormProblem::run(KernelRunner& runner) const {
  const auto device_core = runner.input(core);
  const auto device_z = runner.input(z);
  const auto device_weight = runner.input(weight);
  const auto out = runner.output<bf16>(core.size());
  runner.run(kernels::ONormArgs{.core = device_core.get(),
                                .z = device_z.get(),
                                .weight = device_weight.get(),
                                .out = out.get(),
                                .tokens = tokens,
                                .heads = heads,
                                .head_dim = head_dim,
                                .eps = eps});
  return out.read();
}

std::vector<double> NormProblem::truth() const {
  return reference::o_norm(core, z, weight, {tokens, heads, head_dim}, eps);
}

// --- shaping inputs -------------------------------------------------------------------------------------------------

void make_unit_rows(std::vector<float>& x, std::size_t width) {
  for (std::size_t first = 0; first < x.size(); first += width) {
    double squares = 0;
    for (std::size_t i = first; i < first + width; ++i)
      squares += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    const double root = std::sqrt(squares + 1e-6);
    for (std::size_t i = first; i < first + width; ++i) {
      x[i] = to_float(reference::round_to_bf16(static_cast<double>(x[i]) / root));
    }
  }
}

std::vector<float> rounded(const std::vector<float>& x) {
  std::vector<float> result(x.size());
  std::transform(x.begin(), x.end(), result.begin(), [](float value) { return to_float(to_bf16(value)); });
  return result;
}

}  // namespace kdart::test
