#include "bench_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "kdart/bf16.h"
#include "kdart/state.h"

namespace kdart::probe {
namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

// Elements of the weights that projections multiply with: each is used once per token.
std::uint64_t projection_elements(const KdaConfig& c) noexcept {
  const std::uint64_t hidden = c.hidden_size;
  const std::uint64_t qkv = c.qkv();
  const auto low_rank = [&](std::uint64_t rank) { return rank * hidden + qkv * rank; };
  const std::uint64_t gate = c.output_gate_rank == 0 ? qkv * hidden : low_rank(c.output_gate_rank);
  return 4 * qkv * hidden + low_rank(c.decay_rank) + gate + c.heads * hidden;  // q, k, v, o; f; g; b
}

// Of the convolution, A_log, dt_bias and the output norm: all but the projections.
std::uint64_t core_weight_bytes(const KdaConfig& c) noexcept {
  const std::uint64_t conv = std::uint64_t{c.conv_channels()} * c.conv_kernel;
  return (conv + c.head_dim) * sizeof(bf16) + (std::uint64_t{c.heads} + c.qkv()) * sizeof(float);
}

}  // namespace

double median(std::vector<double> samples) {
  if (samples.empty()) return none;
  std::sort(samples.begin(), samples.end());
  const std::size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2.0;
}

double percentile(std::vector<double> samples, double part) {
  if (samples.empty()) return none;
  std::sort(samples.begin(), samples.end());
  const double rank = std::ceil(part * static_cast<double>(samples.size()));
  return samples[std::clamp<std::size_t>(static_cast<std::size_t>(rank), 1, samples.size()) - 1];
}

double smallest(const std::vector<double>& samples) {
  return samples.empty() ? none : *std::min_element(samples.begin(), samples.end());
}

std::uint64_t weight_bytes(const KdaConfig& c) noexcept {
  const std::uint64_t bias = c.output_gate_bias ? c.qkv() : 0;
  return (projection_elements(c) + bias) * sizeof(bf16) + core_weight_bytes(c);
}

std::uint64_t state_bytes(const KdaConfig& config) noexcept {
  return KdaState::recurrent_bytes(config) + KdaState::conv_bytes(config);
}

std::uint64_t row_bytes(const KdaConfig& config, std::uint32_t tokens) noexcept {
  return std::uint64_t{tokens} * config.hidden_size * sizeof(bf16);
}

Traffic traffic_of(const KdaConfig& config, std::uint32_t tokens) noexcept {
  return {weight_bytes(config), 2 * state_bytes(config), 2 * row_bytes(config, tokens)};
}

std::uint64_t core_input_bytes(const KdaConfig& c, std::uint32_t tokens) noexcept {
  return tokens * (5 * std::uint64_t{c.qkv()} + c.heads) * sizeof(bf16);
}

std::uint64_t core_row_bytes(const KdaConfig& c, std::uint32_t tokens) noexcept {
  return std::uint64_t{tokens} * c.qkv() * sizeof(bf16);
}

Traffic core_traffic(const KdaConfig& c, std::uint32_t tokens) noexcept {
  return {core_weight_bytes(c), 2 * state_bytes(c), core_input_bytes(c, tokens) + core_row_bytes(c, tokens)};
}

Traffic recurrent_traffic(const KdaConfig& c, std::uint32_t rows) noexcept {
  const std::uint64_t row = 5 * std::uint64_t{c.qkv()} + c.heads;  // q, k, v, gate, out; beta
  return {0, KdaState::recurrent_bytes(c) * 2 * rows, row * rows * sizeof(float)};
}

std::uint64_t recurrent_flops(const KdaConfig& c, std::uint32_t rows) noexcept {
  // Decay D^2, S^T k 2 D^2, S + k d^T 2 D^2, S^T q 2 D^2.
  return 7 * c.recurrent_elements() * rows;
}

std::uint64_t core_flops(const KdaConfig& c, std::uint32_t tokens) noexcept {
  return 2 * c.conv_elements() * tokens + recurrent_flops(c, tokens);
}

std::uint64_t flops_of(const KdaConfig& c, std::uint32_t tokens) noexcept {
  return 2 * projection_elements(c) * tokens + core_flops(c, tokens);
}

double floor_us(std::uint64_t bytes, double bytes_per_second) noexcept {
  return static_cast<double>(bytes) / bytes_per_second * 1e6;
}

std::uint32_t rotation_sets(std::uint64_t set_bytes, std::uint64_t target, std::uint64_t room, std::uint32_t least,
                            std::uint32_t most) noexcept {
  if (set_bytes == 0) return least;
  const std::uint64_t wanted = std::clamp<std::uint64_t>((target + set_bytes - 1) / set_bytes, least, most);
  return static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min(wanted, room / set_bytes)));
}

std::uint32_t paired_sets(std::uint32_t sets, std::uint32_t layers) noexcept {
  return sets < layers ? sets : sets - sets % layers;
}

std::uint32_t next_calls(std::uint32_t calls, double elapsed_ms, double wanted_ms, std::uint32_t most) noexcept {
  if (elapsed_ms >= wanted_ms || calls >= most) return std::min(calls, most);
  // A tenth more than it seems to need, at least twice and at most 16 times as many: short samples mislead.
  const double factor = elapsed_ms > 0.0 ? std::clamp(1.1 * wanted_ms / elapsed_ms, 2.0, 16.0) : 16.0;
  const double next = std::ceil(static_cast<double>(calls) * factor);
  return static_cast<std::uint32_t>(std::min(next, static_cast<double>(most)));
}

}  // namespace kdart::probe
