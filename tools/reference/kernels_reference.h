// Each kernel of the reference route alone, in float64, on the kernel's own inputs (kda.md section 5): what a kernel's
// output is judged against. Nothing is rounded here; a value that the kernel rounds to bf16 is given before rounding.
// Tensors are dense and row-major unless a stride is asked for; spans whose length does not fit throw
// Error(invalid_argument).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/config.h"

namespace kdart::reference {

// bf16 values as float, exactly.
[[nodiscard]] std::vector<float> widen(std::span<const bf16> x);
// Round to nearest even, once: not by way of float, which could round twice.
[[nodiscard]] bf16 round_to_bf16(double x);
[[nodiscard]] std::vector<bf16> round_to_bf16(std::span<const double> x);

// dense_gemm, dense_gemv, dense_gemv_batchm: A [m, k] with row stride lda, B [n, k], bias [n] or empty.
// Returns A B^T + bias as [m, n].
struct GemmShape {
  std::size_t m, n, k, lda;
};
[[nodiscard]] std::vector<double> gemm(std::span<const bf16> a, std::span<const bf16> b, std::span<const bf16> bias,
                                       const GemmShape& shape);

struct HeadShape {
  std::size_t tokens, heads, head_dim;
};

// gate: f bf16 [T, H, D], dt_bias [H, D], a_log [H]. Returns the log-decay [T, H, D], raised to -110 where it is below.
[[nodiscard]] std::vector<double> gate(std::span<const bf16> f, std::span<const float> dt_bias,
                                       std::span<const float> a_log, const HeadShape& shape, GateLaw law,
                                       float lower_bound);

[[nodiscard]] std::vector<double> sigmoid(std::span<const bf16> x);

struct ConvShape {
  std::size_t tokens;
  std::size_t channels;     // q | k | v
  std::size_t qk_channels;  // the leading channels whose heads are L2-normalised
  std::size_t head_dim;
  std::size_t x_stride;  // elements between rows of x
  float l2_eps;
};
struct ConvResult {
  std::vector<double> out;   // [T, channels]
  std::vector<float> state;  // [channels, 4]: exact, since inputs are only copied
};
// The convolution and SiLU alone: what conv_prefill writes as f32.
[[nodiscard]] ConvResult conv_silu(std::span<const float> state, std::span<const bf16> x, std::span<const bf16> w,
                                   const ConvShape& shape);
// With the L2 normalisation: what conv_decode (T = 1), or conv_prefill and l2 together, round to bf16.
[[nodiscard]] ConvResult conv(std::span<const float> state, std::span<const bf16> x, std::span<const bf16> w,
                              const ConvShape& shape);
// l2 alone: x [T, channels] with T = x.size() / channels; channels from qk_channels on pass through.
[[nodiscard]] std::vector<double> l2(std::span<const float> x, std::size_t channels, std::size_t qk_channels,
                                     std::size_t head_dim, float eps);

// recurrent and recurrent_smem, one row: q, k, v, gate [H, D], beta [H], state [H, D, D] key-major.
struct Recurrence {
  std::vector<double> out;    // [H, D], or [T, H, D] from chunk_scan
  std::vector<double> state;  // [H, D, D]
};
[[nodiscard]] Recurrence recurrent_step(std::span<const float> q, std::span<const float> k, std::span<const float> v,
                                        std::span<const float> gate, std::span<const float> beta,
                                        std::span<const float> state, std::size_t heads, std::size_t head_dim,
                                        float scale);

struct ChunkShape {
  std::size_t tokens, heads, head_dim, chunk;
  [[nodiscard]] std::size_t chunks() const { return (tokens + chunk - 1) / chunk; }
  [[nodiscard]] std::size_t padded() const { return chunks() * chunk; }
};

// chunk_prepare: k, v, gate [T, H, D], beta [T, H]. Returns three [padded, H, D]; past T gc repeats its last valid
// value, u and w are 0.
struct Prepared {
  std::vector<double> gc, u, w;
};
[[nodiscard]] Prepared chunk_prepare(std::span<const float> k, std::span<const float> v, std::span<const float> gate,
                                     std::span<const float> beta, const ChunkShape& shape);

// chunk_scan: q, k [T, H, D]; gc, u, w [padded, H, D]; state [H, D, D]. Returns out [T, H, D] and the new state.
[[nodiscard]] Recurrence chunk_scan(std::span<const float> q, std::span<const float> k, std::span<const float> gc,
                                    std::span<const float> u, std::span<const float> w, std::span<const float> state,
                                    const ChunkShape& shape, float scale);

// o_norm: core [T, H, D], z bf16 [T, H, D], weight bf16 [D].
[[nodiscard]] std::vector<double> o_norm(std::span<const float> core, std::span<const bf16> z,
                                         std::span<const bf16> weight, const HeadShape& shape, float eps);

}  // namespace kdart::reference
