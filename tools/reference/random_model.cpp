#include "tools/reference/random_model.h"

#include <cmath>
#include <cstddef>
#include <memory>

namespace kdart::reference {
namespace {

// splitmix64: one 64-bit state, passes the usual statistical tests, and is the same everywhere.
class Generator {
 public:
  // `stream` keeps the tensors of one seed apart.
  Generator(std::uint64_t seed, std::uint64_t stream)
      : state_(seed * 0xD1342543DE82EF95U + stream * 0x9E3779B97F4A7C15U) {
    state_ = bits() ^ (bits() << 1);
  }

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) { return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53); }
  // The sum of twelve uniform 16-bit numbers: standard deviation 65,536 almost exactly, tails cut at six. Whole numbers
  // only, so no mathematical library can change a bit.
  double normal() {
    constexpr std::uint64_t even = 0x0000FFFF0000FFFFU;
    std::uint64_t sums = 0;  // two 32-bit lanes of six numbers each
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t word = bits();
      sums += (word & even) + ((word >> 16) & even);
    }
    const auto sum = static_cast<double>((sums & 0xFFFFFFFFU) + (sums >> 32));
    return (sum - 6 * 65535.0) / 65536.0;
  }

 private:
  std::uint64_t state_;
};

std::vector<bf16> normal_bf16(Generator generator, std::size_t count, double mean, double deviation) {
  std::vector<bf16> result(count);
  for (bf16& value : result) value = to_bf16(static_cast<float>(mean + deviation * generator.normal()));
  return result;
}

struct Tensors {
  std::vector<bf16> q_proj, k_proj, v_proj, q_conv, k_conv, v_conv, f_a, f_b, g_a, g_b, g_bias, g, b, o, o_norm;
  std::vector<float> a_log, dt_bias;
};

// What every tensor is drawn with. Inputs, states and weights use disjoint streams.
enum Stream : std::uint64_t { weights_stream = 0, hidden_stream = 100, recurrent_stream = 101, conv_stream = 102 };

}  // namespace

KdaWeights random_weights(const KdaConfig& config, std::uint64_t seed) {
  config.validate();
  const std::size_t hidden = config.hidden_size;
  const std::size_t qkv = config.qkv();
  const std::size_t rank = config.output_gate_rank;
  auto owner = std::make_shared<Tensors>();
  Tensors& t = *owner;
  std::uint64_t stream = weights_stream;
  const auto next = [&] { return Generator(seed, stream++); };
  // A projection that keeps the variance of its input.
  const auto projection = [&](std::size_t rows, std::size_t columns) {
    return normal_bf16(next(), rows * columns, 0.0, 1.0 / std::sqrt(static_cast<double>(columns)));
  };
  t.q_proj = projection(qkv, hidden);
  t.k_proj = projection(qkv, hidden);
  t.v_proj = projection(qkv, hidden);
  t.q_conv = normal_bf16(next(), qkv * config.conv_kernel, 0.0, 0.5);
  t.k_conv = normal_bf16(next(), qkv * config.conv_kernel, 0.0, 0.5);
  t.v_conv = normal_bf16(next(), qkv * config.conv_kernel, 0.0, 0.5);
  t.f_a = projection(config.decay_rank, hidden);
  t.f_b = projection(qkv, config.decay_rank);
  if (rank == 0) {
    t.g = projection(qkv, hidden);
  } else {
    t.g_a = projection(rank, hidden);
    t.g_b = projection(qkv, rank);
    if (config.output_gate_bias) t.g_bias = normal_bf16(next(), qkv, 0.0, 0.5);
  }
  t.b = projection(config.heads, hidden);
  t.o = projection(hidden, qkv);
  t.o_norm = normal_bf16(next(), config.head_dim, 1.0, 0.1);

  // The decays that such models are initialised with: per token exp(-exp(A_log) * softplus(dt_bias)) is near 1.
  const bool softplus = config.gate_law == GateLaw::softplus;
  Generator decay = next();
  t.a_log.resize(config.heads);
  for (float& value : t.a_log) value = static_cast<float>(decay.uniform(0.0, softplus ? 2.75 : 0.75));
  t.dt_bias.resize(qkv);
  for (float& value : t.dt_bias) value = static_cast<float>(softplus ? decay.uniform(-6.9, -2.25) : decay.normal());

  KdaWeights w;
  w.config = config;
  w.q_proj = t.q_proj, w.k_proj = t.k_proj, w.v_proj = t.v_proj;
  w.q_conv = t.q_conv, w.k_conv = t.k_conv, w.v_conv = t.v_conv;
  w.f_a_proj = t.f_a, w.f_b_proj = t.f_b;
  w.g_a_proj = t.g_a, w.g_b_proj = t.g_b, w.g_b_bias = t.g_bias, w.g_proj = t.g;
  w.b_proj = t.b, w.o_proj = t.o, w.o_norm = t.o_norm;
  w.a_log = t.a_log, w.dt_bias = t.dt_bias;
  w.keep_alive = owner;
  return w;
}

std::vector<bf16> random_hidden(const KdaConfig& config, std::uint64_t tokens, std::uint64_t seed) {
  return normal_bf16(Generator(seed, hidden_stream), tokens * config.hidden_size, 0.0, 1.0);
}

std::vector<float> random_recurrent(const KdaConfig& config, std::uint64_t seed) {
  Generator generator(seed, recurrent_stream);
  std::vector<float> result(config.recurrent_elements());
  for (float& value : result) value = static_cast<float>(0.1 * generator.normal());
  return result;
}

std::vector<float> random_conv(const KdaConfig& config, std::uint64_t seed) {
  Generator generator(seed, conv_stream);
  std::vector<float> result(config.conv_elements());
  for (std::size_t i = 0; i < result.size(); ++i) {
    // The window holds earlier projections, which are bf16 values.
    if (i % config.conv_kernel != 0) result[i] = to_float(to_bf16(static_cast<float>(0.7 * generator.normal())));
  }
  return result;
}

}  // namespace kdart::reference
