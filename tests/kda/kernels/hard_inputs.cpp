#include "tests/kda/kernels/hard_inputs.h"

#include <algorithm>
#include <cmath>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/catalogue.h"
#include "tests/kda/kernels/problems.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using Bytes = std::vector<std::byte>;

bf16 bf(double x) {
  return to_bf16(static_cast<float>(x));
}

// Either sign, magnitudes evenly over the powers of two from `low` to `high`.
double wild(Random& random, double low, double high) {
  const double magnitude = std::exp2(random.uniform(low, high));
  return random.bits() % 2 == 0 ? magnitude : -magnitude;
}
void make_wild(std::vector<float>& x, std::uint64_t seed, double low, double high) {
  Random random(seed);
  for (float& value : x) value = static_cast<float>(wild(random, low, high));
}
void make_wild(std::vector<bf16>& x, std::uint64_t seed, double low, double high) {
  Random random(seed);
  for (bf16& value : x) value = bf(wild(random, low, high));
}

// Every sign, exponent and mantissa but those of infinities and NaN.
std::vector<bf16> every_finite_bf16() {
  std::vector<bf16> result;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7F80) != 0x7F80) result.push_back(bf16{static_cast<std::uint16_t>(bits)});
  }
  return result;
}

// Zeroes rows of `width`: the first, the last, and every third.
template <class T>
void zero_rows(std::vector<T>& x, std::size_t width) {
  const std::size_t rows = x.size() / width;
  for (std::size_t r = 0; r < rows; ++r) {
    if (r % 3 != 0 && r + 1 != rows) continue;
    std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(r * width), width, T{});
  }
}

// --- projections ----------------------------------------------------------------------------------------------------

// Both operands from `value(row, column)`; the gaps of a stay NaN.
template <class A, class B>
GemmProblem product_of(const A& a, const B& b) {
  GemmProblem p = GemmProblem::random(21, 13, 37, 520, true);
  for (std::size_t r = 0; r < p.m; ++r) {
    for (std::size_t c = 0; c < p.k; ++c) p.a[r * p.lda + c] = bf(a(r, c));
  }
  for (std::size_t r = 0; r < p.n; ++r) {
    for (std::size_t c = 0; c < p.k; ++c) p.b[r * p.k + c] = bf(b(r, c));
  }
  return p;
}

GemmProblem wild_product() {
  Random random(22);
  const auto value = [&](std::size_t, std::size_t) { return wild(random, -58, 58); };
  return product_of(value, value);
}
GemmProblem denormal_product() {
  Random random(23);
  const auto value = [&](std::size_t, std::size_t) { return wild(random, -73, -67); };
  GemmProblem p = product_of(value, value);
  make_wild(p.bias, 24, -133, -126);
  return p;
}
// Pairs that cancel to the last bit, but for what the order of the sum leaves.
GemmProblem cancelling_product() {
  Random random(25);
  double last = 0;
  const auto twice = [&](std::size_t, std::size_t c) { return last = c % 2 == 0 ? wild(random, -20, 20) : last; };
  const auto turned = [&](std::size_t r, std::size_t c) {
    return last = c % 2 == 0 ? wild(random, -20, 20) : r % 5 == 4 && c == 7 ? 1.0 : -last;
  };
  GemmProblem p = product_of(twice, turned);
  std::fill(p.bias.begin(), p.bias.end(), bf16{});
  return p;
}
// Columns from well below infinity to well beyond it, some on the way and some at the end, rounding to bf16 included; all
// of a column's terms have one sign.
GemmProblem overflowing_product() {
  Random random(26);
  const auto a = [&](std::size_t, std::size_t) { return std::abs(wild(random, 58, 62)); };
  const auto b = [&](std::size_t r, std::size_t) {
    return (r % 2 == 0 ? 1 : -1) * std::exp2(54 + static_cast<double>(r % 12) / 2 + random.uniform(0, 0.1));
  };
  return product_of(a, b);
}

template <class Args>
void add_products(std::vector<HardEntry>& entries) {
  const std::string_view name = Args::contract().name;
  const auto add = [&](std::string_view input, GemmProblem (*make)()) {
    entries.push_back({name, input, [make](KernelRunner& runner) { return bytes_of(make().run<Args>(runner)); }});
  };
  add("magnitudes from 2^-58 to 2^58", wild_product);
  add("denormal products", denormal_product);
  add("sums that cancel", cancelling_product);
  add("sums that overflow", overflowing_product);
}

// --- elementwise ----------------------------------------------------------------------------------------------------

// Every finite f in heads from nearly no decay to more than any checkpoint has.
Bytes gate(KernelRunner& runner, GateLaw law) {
  const std::vector<bf16> f = every_finite_bf16();
  GateProblem p = GateProblem::random(31, static_cast<std::uint32_t>(f.size() / (std::size_t{4} * 64)), 4, 64, law);
  p.f.assign(f.begin(), f.begin() + static_cast<std::ptrdiff_t>(p.f.size()));
  p.a_log = {-6.9F, 0.0F, 2.7726F, 6.9F};
  for (std::size_t c = 0; c < p.dt_bias.size(); c += 2) p.dt_bias[c] = c % 4 == 0 ? 8.0F : -8.0F;
  Bytes result = bytes_of(p.run(runner));
  // The same f in other heads.
  std::rotate(p.a_log.begin(), p.a_log.begin() + 1, p.a_log.end());
  const Bytes rotated = bytes_of(p.run(runner));
  result.insert(result.end(), rotated.begin(), rotated.end());
  return result;
}

Bytes sigmoid(KernelRunner& runner) {
  const auto b = runner.input(every_finite_bf16());
  const auto out = runner.output<float>(b.size());
  runner.run(kernels::SigmoidArgs{.b = b.get(), .out = out.get(), .n = b.size()});
  return bytes_of(out.read());
}

Bytes fill(KernelRunner& runner) {
  Bytes result;
  for (const float value : {-0.0F, 1e-40F, -3.4e38F}) {
    const auto dst = runner.output<float>(77);
    runner.run(kernels::FillArgs{.dst = dst.get(), .n = 77, .value = value});
    const Bytes bytes = bytes_of(dst.read());
    result.insert(result.end(), bytes.begin(), bytes.end());
  }
  return result;
}

constexpr std::uint32_t copied_channels = 64;

Bytes pack_qkv(KernelRunner& runner) {
  const auto part = runner.input(every_finite_bf16());
  const auto tokens = static_cast<std::uint32_t>(part.size() / copied_channels);
  const auto out = runner.output<bf16>(std::size_t{3} * tokens * copied_channels);
  runner.run(kernels::PackQkvArgs{.q = part.get(),
                                  .k = part.get(),
                                  .v = part.get(),
                                  .out = out.get(),
                                  .tokens = tokens,
                                  .key_channels = copied_channels,
                                  .value_channels = copied_channels});
  return bytes_of(out.read());
}

Bytes split_widen(KernelRunner& runner) {
  const auto qkv = runner.input(every_finite_bf16());
  const auto tokens = static_cast<std::uint32_t>(qkv.size() / (std::size_t{3} * copied_channels));
  const std::size_t elements = std::size_t{tokens} * copied_channels;
  const auto q = runner.output<float>(elements);
  const auto k = runner.output<float>(elements);
  const auto v = runner.output<float>(elements);
  runner.run(kernels::SplitWidenArgs{.qkv = qkv.get(),
                                     .q = q.get(),
                                     .k = k.get(),
                                     .v = v.get(),
                                     .tokens = tokens,
                                     .key_channels = copied_channels,
                                     .value_channels = copied_channels});
  return bytes_of(q.read(), k.read(), v.read());
}

void add_elementwise(std::vector<HardEntry>& entries) {
  for (const GateLaw law : {GateLaw::softplus, GateLaw::lower_bound}) {
    entries.push_back({"gate", law == GateLaw::softplus ? "every finite f, softplus" : "every finite f, lower bound",
                       [law](KernelRunner& runner) { return gate(runner, law); }});
  }
  entries.push_back({"sigmoid", "every finite b", sigmoid});
  entries.push_back({"fill", "-0, a denormal, nearly infinity", fill});
  entries.push_back({"pack_qkv", "every finite bf16", pack_qkv});
  entries.push_back({"split_widen", "every finite bf16", split_widen});
}

// --- convolution ----------------------------------------------------------------------------------------------------

ConvProblem ordinary_rows() {
  return ConvProblem::random(41, 9, 2, 64);
}
ConvProblem wild_rows() {
  ConvProblem p = ordinary_rows();
  make_wild(p.state, 42, -20, 20);
  make_wild(p.x, 43, -20, 20);
  make_wild(p.w, 44, -20, 20);
  return p;
}
// Products about 2^-130, whose squares are 0: eps alone decides.
ConvProblem tiny_rows() {
  ConvProblem p = ordinary_rows();
  make_wild(p.state, 45, -68, -60);
  make_wild(p.x, 46, -68, -60);
  make_wild(p.w, 47, -72, -62);
  return p;
}
// Sums of squares about as large as eps.
ConvProblem small_rows() {
  ConvProblem p = ordinary_rows();
  for (float& value : p.state) value *= 0x1p-13F;
  for (bf16& value : p.x) value = to_bf16(to_float(value) * 0x1p-13F);
  return p;
}
ConvProblem huge_rows() {
  ConvProblem p = ordinary_rows();
  for (bf16& value : p.w) value = to_bf16(to_float(value) * 0x1p48F);
  return p;
}
ConvProblem zeroed_rows() {
  ConvProblem p = ordinary_rows();
  zero_rows(p.x, p.channels());
  std::fill(p.state.begin(), p.state.end(), -0.0F);
  return p;
}

void add_convolutions(std::vector<HardEntry>& entries) {
  const auto add = [&](std::string_view input, ConvProblem (*make)()) {
    entries.push_back({"conv_decode", input, [make](KernelRunner& runner) {
                         const auto result = make().decode(runner);
                         return bytes_of(result.out, result.state);
                       }});
    entries.push_back({"conv_prefill", input, [make](KernelRunner& runner) {
                         std::vector<float> silu;
                         const auto result = make().prefill(runner, &silu);
                         return bytes_of(silu, result.out, result.state);
                       }});
  };
  add("magnitudes from 2^-40 to 2^40", wild_rows);
  add("denormal products", tiny_rows);
  add("squares like eps", small_rows);
  add("outputs up to 2^50", huge_rows);
  add("zero rows", zeroed_rows);
  const auto add_l2 = [&](std::string_view input, double low, double high) {
    entries.push_back({"l2", input, [low, high](KernelRunner& runner) {
                         const ConvProblem p = ordinary_rows();
                         std::vector<float> x(p.x.size());
                         make_wild(x, 48, low, high);
                         zero_rows(x, p.channels() / 6);  // heads
                         return bytes_of(p.l2(runner, x));
                       }});
  };
  add_l2("magnitudes from 2^-60 to 2^60", -60, 60);
  add_l2("denormal squares", -75, -64);
  add_l2("denormals", -149, -126);
}

// --- recurrences ----------------------------------------------------------------------------------------------------

RecurrentProblem ordinary_steps() {
  return RecurrentProblem::random(51, 3, 2, 128);
}
// Closed, open and nearly open channels side by side, beta of exactly 0 and 1 among others.
RecurrentProblem mixed_steps() {
  RecurrentProblem p = ordinary_steps();
  for (std::size_t i = 0; i < p.gate.size(); ++i) {
    p.gate[i] = i % 4 == 0 ? -110.0F : i % 4 == 1 ? 0.0F : i % 4 == 2 ? -1e-3F : -87.5F;
  }
  p.beta = {0.0F, 1.0F, 0.99999994F, 1e-40F, 1.0F, 0.5F};
  return p;
}
RecurrentProblem large_state() {
  RecurrentProblem p = ordinary_steps();
  make_wild(p.state, 52, -60, 66);
  return p;
}
RecurrentProblem denormal_state() {
  RecurrentProblem p = ordinary_steps();
  make_wild(p.state, 53, -145, -124);
  make_wild(p.v, 54, -140, -124);
  return p;
}
RecurrentProblem zero_steps() {
  RecurrentProblem p = mixed_steps();
  for (auto* x : {&p.q, &p.k, &p.v}) zero_rows(*x, p.head_dim);
  return p;
}

void add_recurrences(std::vector<HardEntry>& entries) {
  const auto add = [&](std::string_view input, RecurrentProblem (*make)()) {
    entries.push_back({"recurrent", input, [make](KernelRunner& runner) {
                         const auto result = make().run(runner);
                         return bytes_of(result.out, result.state);
                       }});
    entries.push_back({"recurrent_smem", input, [make](KernelRunner& runner) {
                         const auto result = make().run_smem(runner, 32);
                         return bytes_of(result.out, result.state);
                       }});
  };
  add("open and closed gates, beta 0 and 1", mixed_steps);
  add("states from 2^-60 to 2^66", large_state);
  add("denormal states", denormal_state);
  add("zero rows", zero_steps);
}

// --- chunks ---------------------------------------------------------------------------------------------------------

// Chunks of 32 at heads of 64: all devices have shared memory for them.
ChunkProblem ordinary_chunks(std::uint32_t chunk) {
  return ChunkProblem::random(61, 2 * chunk + 5, 2, chunk == 16 ? 128 : 64, chunk);
}
ChunkProblem saturated_chunks(std::uint32_t chunk) {
  ChunkProblem p = ordinary_chunks(chunk);
  std::fill(p.gate.begin(), p.gate.end(), -110.0F);
  return p;
}
ChunkProblem mixed_chunks(std::uint32_t chunk) {
  ChunkProblem p = ordinary_chunks(chunk);
  const std::size_t width = std::size_t{p.heads} * p.head_dim;
  for (std::size_t i = 0; i < p.gate.size(); ++i) {
    const std::size_t t = i / width;
    p.gate[i] = (t + i) % 5 == 0 ? -110.0F : t % 2 == 0 ? -1e-3F : 0.0F;
  }
  for (std::size_t i = 0; i < p.beta.size(); ++i) p.beta[i] = i % 3 == 0 ? 1.0F : i % 3 == 1 ? 0.0F : p.beta[i];
  return p;
}
ChunkProblem identical_keys(std::uint32_t chunk) {
  ChunkProblem p = ordinary_chunks(chunk);
  const std::size_t width = std::size_t{p.heads} * p.head_dim;
  for (std::size_t i = width; i < p.k.size(); ++i) p.k[i] = p.k[i % width];
  std::fill(p.gate.begin(), p.gate.end(), 0.0F);
  std::fill(p.beta.begin(), p.beta.end(), 1.0F);
  return p;
}
ChunkProblem large_and_zero(std::uint32_t chunk) {
  ChunkProblem p = ordinary_chunks(chunk);
  for (auto* x : {&p.q, &p.k, &p.v}) zero_rows(*x, p.head_dim);
  make_wild(p.state, 62, -60, 66);
  return p;
}
ChunkProblem denormal_chunks(std::uint32_t chunk) {
  ChunkProblem p = ordinary_chunks(chunk);
  make_wild(p.v, 63, -140, -124);
  make_wild(p.state, 64, -145, -124);
  return p;
}

void add_chunks(std::vector<HardEntry>& entries) {
  const auto add = [&](std::string_view input, ChunkProblem (*make)(std::uint32_t)) {
    for (const std::uint32_t chunk : {16U, 32U}) {
      entries.push_back({"chunk_prepare", input, [make, chunk](KernelRunner& runner) {
                           const auto prepared = make(chunk).prepare(runner);
                           return bytes_of(prepared.gc, prepared.u, prepared.w);
                         }});
      entries.push_back({"chunk_scan", input, [make, chunk](KernelRunner& runner) {
                           const ChunkProblem p = make(chunk);
                           const auto scanned = p.scan(runner, p.prepare(runner));
                           return bytes_of(scanned.out, scanned.state);
                         }});
    }
  };
  add("gates at the floor", saturated_chunks);
  add("open and closed gates, beta 0 and 1", mixed_chunks);
  add("identical keys, beta 1, no decay", identical_keys);
  add("zero rows, states from 2^-60 to 2^66", large_and_zero);
  add("denormal values and states", denormal_chunks);
}

// --- output norm ----------------------------------------------------------------------------------------------------

void add_norms(std::vector<HardEntry>& entries) {
  const auto add = [&](std::string_view input, double low, double high) {
    entries.push_back({"o_norm", input, [low, high](KernelRunner& runner) {
                         NormProblem p = NormProblem::random(71, 17, 3, 128);
                         make_wild(p.core, 72, low, high);
                         zero_rows(p.core, p.head_dim);
                         make_wild(p.z, 73, -20, 7);
                         return bytes_of(p.run(runner));
                       }});
  };
  add("magnitudes from 2^-60 to 2^59", -60, 59);
  add("denormal squares", -75, -64);
  add("denormals", -149, -126);
}

std::vector<HardEntry> make_entries() {
  std::vector<HardEntry> entries;
  add_products<kernels::DenseGemmBf16Args>(entries);
  add_products<kernels::DenseGemvBf16Args>(entries);
  add_products<kernels::DenseGemvBf16BatchmArgs>(entries);
  add_elementwise(entries);
  add_convolutions(entries);
  add_recurrences(entries);
  add_chunks(entries);
  add_norms(entries);
  return entries;
}

}  // namespace

std::span<const HardEntry> hard_inputs() {
  static const std::vector<HardEntry> entries = make_entries();
  return entries;
}

}  // namespace kdart::test
