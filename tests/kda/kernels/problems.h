// One problem per kernel: its inputs, how it is launched, and its float64 truth. Tests make one at random, bend the inputs
// they are about, run it on a KernelRunner and compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/config.h"
#include "tests/support/kernel_runner.h"
#include "tools/reference/kernels_reference.h"

namespace kdart::test {

// dense_gemm_bf16, dense_gemv_bf16, dense_gemv_bf16_batchm: a [m, lda], b [n, k], bias [n] or empty.
struct GemmProblem {
  std::uint32_t m, n, k, lda, ldc;
  std::vector<bf16> a, b, bias;

  // Rows of a and of c are further apart than they are wide; the gaps of a hold NaN.
  [[nodiscard]] static GemmProblem random(std::uint64_t seed, std::uint32_t m, std::uint32_t n, std::uint32_t k,
                                          bool bias);
  // Rows [first, first + count) alone.
  [[nodiscard]] GemmProblem rows(std::uint32_t first, std::uint32_t count) const;
  // c as [m, n]. Args is DenseGemmBf16Args or one of its siblings.
  template <class Args>
  [[nodiscard]] std::vector<bf16> run(KernelRunner& runner) const;
  [[nodiscard]] std::vector<double> truth() const;
};

struct GateProblem {
  std::uint32_t tokens, heads, head_dim;
  GateLaw law;
  float lower_bound;
  std::vector<bf16> f;
  std::vector<float> dt_bias, a_log;

  [[nodiscard]] static GateProblem random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads,
                                          std::uint32_t head_dim, GateLaw law);
  [[nodiscard]] std::vector<float> run(KernelRunner& runner) const;
  [[nodiscard]] std::vector<double> truth() const;
  void expect_truth(std::string_view what, KernelRunner& runner) const;
};

// conv_decode token by token, or conv_prefill and l2: one sequence. x has rows further apart than they are wide.
struct ConvProblem {
  static constexpr std::uint32_t taps = 4;
  std::uint32_t tokens, heads, head_dim;
  float l2_eps = 1e-6F;
  std::vector<float> state;  // [channels, 4]
  std::vector<bf16> x;       // [tokens, channels]
  std::vector<bf16> w;       // [channels, 4]

  struct Result {
    std::vector<bf16> out;     // [tokens, channels]
    std::vector<float> state;  // [channels, 4]
  };

  [[nodiscard]] static ConvProblem random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads,
                                          std::uint32_t head_dim);
  [[nodiscard]] std::uint32_t channels() const { return 3 * heads * head_dim; }
  [[nodiscard]] std::uint32_t qk_channels() const { return 2 * heads * head_dim; }
  [[nodiscard]] Result decode(KernelRunner& runner) const;
  // What lies between the two kernels goes to `silu`, unless null.
  [[nodiscard]] Result prefill(KernelRunner& runner, std::vector<float>* silu = nullptr) const;
  // l2 alone, on [tokens, channels].
  [[nodiscard]] std::vector<bf16> l2(KernelRunner& runner, const std::vector<float>& in) const;
  [[nodiscard]] reference::ConvResult truth() const;
  [[nodiscard]] reference::ConvResult silu_truth() const;
  // Runs both routes: each within the bounds of float64, and equal to each other bit for bit.
  void expect_truth(std::string_view what, KernelRunner& runner) const;
};
// Slots 1..3 of a window [channels, 4]; slot 0 is shifted out unread.
[[nodiscard]] std::vector<float> live_slots(const std::vector<float>& window);

// recurrent and recurrent_smem: `rows` sequences, one token each. Every array's rows lie at a stride of its own.
struct RecurrentProblem {
  std::uint32_t rows, heads, head_dim;
  float scale;
  std::vector<float> q, k, v, gate;  // [rows, H, D]
  std::vector<float> beta;           // [rows, H]
  std::vector<float> state;          // slot_count slots, slot_stride apart
  std::uint64_t slot_stride;
  std::uint32_t slot_count;
  std::optional<std::vector<std::uint32_t>> slots;  // none: row r has slot r

  struct Result {
    std::vector<float> out;    // [rows, H, D]
    std::vector<float> state;  // as above, gaps between slots included
  };
  struct Truth {
    std::vector<double> out, state;
  };

  // Unit keys, a dense state.
  [[nodiscard]] static RecurrentProblem random(std::uint64_t seed, std::uint32_t rows, std::uint32_t heads,
                                               std::uint32_t head_dim);
  [[nodiscard]] std::size_t width() const { return std::size_t{heads} * head_dim; }
  [[nodiscard]] Result run(KernelRunner& runner) const;
  [[nodiscard]] Result run_smem(KernelRunner& runner, std::uint32_t v_per_block) const;
  [[nodiscard]] Truth truth() const;
  void expect_truth(std::string_view what, const Result& result) const;
};

// chunk_prepare and chunk_scan: one sequence.
struct ChunkProblem {
  std::uint32_t tokens, heads, head_dim, chunk;
  float scale;
  std::vector<float> q, k, v, gate;  // [tokens, H, D]
  std::vector<float> beta;           // [tokens, H]
  std::vector<float> state;          // [H, D, D]
  float pad;                         // what memory holds past the last token, up to whole chunks

  struct Prepared {
    std::vector<float> gc, u, w;  // [H, chunks, chunk, D], as the kernels have it
  };
  struct Scanned {
    std::vector<float> out;    // [tokens, H, D]
    std::vector<float> state;  // [H, D, D]
  };

  // Unit queries and keys, gates of many sizes, pads of NaN.
  [[nodiscard]] static ChunkProblem random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads,
                                           std::uint32_t head_dim, std::uint32_t chunk = 16);
  [[nodiscard]] reference::ChunkShape shape() const { return {tokens, heads, head_dim, chunk}; }
  [[nodiscard]] Prepared prepare(KernelRunner& runner) const;
  [[nodiscard]] reference::Prepared prepare_truth() const;  // [padded, H, D]
  // Rows of the output past the last token must stay unwritten.
  [[nodiscard]] Scanned scan(KernelRunner& runner, const Prepared& prepared) const;
  [[nodiscard]] reference::Recurrence scan_truth(const Prepared& prepared) const;
  // From [H, chunks, chunk, D] to [padded, H, D].
  [[nodiscard]] std::vector<float> by_token(const std::vector<float>& by_head) const;
  // Both kernels, each on its own inputs.
  void expect_truth(std::string_view what, KernelRunner& runner) const;
};

struct NormProblem {
  std::uint32_t tokens, heads, head_dim;
  float eps;
  std::vector<float> core;
  std::vector<bf16> z, weight;

  [[nodiscard]] static NormProblem random(std::uint64_t seed, std::uint32_t tokens, std::uint32_t heads,
                                          std::uint32_t head_dim);
  [[nodiscard]] std::vector<bf16> run(KernelRunner& runner) const;
  [[nodiscard]] std::vector<double> truth() const;
};

// Scales each `width` elements to length 1 and rounds to bf16, as the layer hands q and k to the recurrence.
void make_unit_rows(std::vector<float>& x, std::size_t width);
// bf16 values as f32, as split_widen leaves them.
[[nodiscard]] std::vector<float> rounded(const std::vector<float>& x);

}  // namespace kdart::test
