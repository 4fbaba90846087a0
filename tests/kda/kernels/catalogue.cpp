#include "tests/kda/kernels/catalogue.h"

#include <utility>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/problems.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using Bytes = std::vector<std::byte>;

template <class Args>
Bytes projection(KernelRunner& runner, bool smallest) {
  const auto p = smallest ? GemmProblem::random(1, 1, 1, 8, true) : GemmProblem::random(1, 13, 133, 1032, true);
  return bytes_of(p.run<Args>(runner));
}

Bytes pack_qkv(KernelRunner& runner, bool smallest) {
  const std::uint32_t tokens = smallest ? 1 : 5;
  const std::uint32_t channels = smallest ? 64 : 320;
  Random random(2);
  const auto q = runner.input(random.bf16_normals(std::size_t{tokens} * channels, 1));
  const auto k = runner.input(random.bf16_normals(std::size_t{tokens} * channels, 1));
  const auto v = runner.input(random.bf16_normals(std::size_t{tokens} * channels, 1));
  const auto out = runner.output<bf16>(std::size_t{3} * tokens * channels);
  runner.run(kernels::PackQkvArgs{.q = q.get(),
                                  .k = k.get(),
                                  .v = v.get(),
                                  .out = out.get(),
                                  .tokens = tokens,
                                  .key_channels = channels,
                                  .value_channels = channels});
  return bytes_of(out.read());
}

Bytes gate(KernelRunner& runner, bool smallest) {
  const std::uint32_t tokens = smallest ? 1 : 7;
  const std::uint32_t heads = smallest ? 1 : 3;
  return bytes_of(GateProblem::random(3, tokens, heads, 64, GateLaw::softplus).run(runner),
                  GateProblem::random(4, tokens, heads, 64, GateLaw::lower_bound).run(runner));
}

Bytes sigmoid(KernelRunner& runner, bool smallest) {
  const std::size_t n = smallest ? 1 : 1003;
  const auto b = runner.input(Random(5).bf16_normals(n, 3));
  const auto out = runner.output<float>(n);
  runner.run(kernels::SigmoidArgs{.b = b.get(), .out = out.get(), .n = n});
  return bytes_of(out.read());
}

ConvProblem convolution(bool smallest) {
  return smallest ? ConvProblem::random(6, 1, 1, 64) : ConvProblem::random(6, 7, 5, 64);
}

// Rows are sequences here, so that the grid has a second axis.
Bytes conv_decode(KernelRunner& runner, bool smallest) {
  const ConvProblem p = convolution(smallest);
  const std::uint64_t window = p.state.size();
  Random random(7);
  const auto state = runner.inout(random.normals(window * p.tokens, 1));
  const auto x = runner.input(p.x);
  const auto w = runner.input(p.w);
  const auto out = runner.output<bf16>(p.x.size());
  runner.run(kernels::ConvDecodeArgs{.state = state.get(),
                                     .x = x.get(),
                                     .w = w.get(),
                                     .out = out.get(),
                                     .slots = {},
                                     .slot_stride = window,
                                     .slot_count = p.tokens,
                                     .rows = p.tokens,
                                     .channels = p.channels(),
                                     .taps = ConvProblem::taps,
                                     .qk_channels = p.qk_channels(),
                                     .head_dim = p.head_dim,
                                     .l2_eps = p.l2_eps,
                                     .x_stride = p.channels(),
                                     .out_stride = p.channels()});
  return bytes_of(out.read(), state.read());
}

Bytes conv_prefill(KernelRunner& runner, bool smallest) {
  const ConvProblem p = convolution(smallest);
  std::vector<float> silu;
  const auto result = p.prefill(runner, &silu);
  return bytes_of(silu, result.state);
}

Bytes l2(KernelRunner& runner, bool smallest) {
  const ConvProblem p = convolution(smallest);
  return bytes_of(p.l2(runner, Random(8).normals(p.x.size(), 1)));
}

Bytes fill(KernelRunner& runner, bool smallest) {
  const std::size_t n = smallest ? 1 : 1003;
  const auto dst = runner.output<float>(n);
  runner.run(kernels::FillArgs{.dst = dst.get(), .n = n, .value = 2.5F});
  return bytes_of(dst.read());
}

Bytes split_widen(KernelRunner& runner, bool smallest) {
  const std::uint32_t tokens = smallest ? 1 : 5;
  const std::uint32_t channels = smallest ? 64 : 320;
  const std::size_t elements = std::size_t{tokens} * channels;
  const auto qkv = runner.input(Random(9).bf16_normals(3 * elements, 1));
  const auto q = runner.output<float>(elements);
  const auto k = runner.output<float>(elements);
  const auto v = runner.output<float>(elements);
  runner.run(kernels::SplitWidenArgs{.qkv = qkv.get(),
                                     .q = q.get(),
                                     .k = k.get(),
                                     .v = v.get(),
                                     .tokens = tokens,
                                     .key_channels = channels,
                                     .value_channels = channels});
  return bytes_of(q.read(), k.read(), v.read());
}

RecurrentProblem recurrence(bool smallest) {
  return smallest ? RecurrentProblem::random(10, 1, 1, 64) : RecurrentProblem::random(10, 3, 3, 128);
}

Bytes recurrent(KernelRunner& runner, bool smallest) {
  const auto result = recurrence(smallest).run(runner);
  return bytes_of(result.out, result.state);
}

Bytes recurrent_smem(KernelRunner& runner, bool smallest) {
  const auto result = recurrence(smallest).run_smem(runner, smallest ? 16 : 32);
  return bytes_of(result.out, result.state);
}

ChunkProblem chunks(bool smallest) {
  return smallest ? ChunkProblem::random(11, 1, 1, 64) : ChunkProblem::random(11, 53, 3, 128);
}

Bytes chunk_prepare(KernelRunner& runner, bool smallest) {
  const auto p = chunks(smallest).prepare(runner);
  return bytes_of(p.gc, p.u, p.w);
}

Bytes chunk_scan(KernelRunner& runner, bool smallest) {
  ChunkProblem p = chunks(smallest);
  // Nothing here has to come from chunk_prepare, only to be of its size; gates must not rise.
  const std::size_t count = p.shape().padded() * p.heads * p.head_dim;
  Random random(12);
  std::vector<float> gc = random.uniforms(count, -1, 0);
  const std::size_t tile = std::size_t{p.chunk} * p.head_dim;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % tile >= p.head_dim) gc[i] += gc[i - p.head_dim];
  }
  const auto result = p.scan(runner, {gc, random.normals(count, 1), random.normals(count, 0.1)});
  return bytes_of(result.out, result.state);
}

Bytes o_norm(KernelRunner& runner, bool smallest) {
  const auto p = smallest ? NormProblem::random(13, 1, 1, 64) : NormProblem::random(13, 7, 3, 128);
  return bytes_of(p.run(runner));
}

const CatalogueEntry entries[] = {
    {"dense_gemm_bf16", projection<kernels::DenseGemmBf16Args>},
    {"dense_gemv_bf16", projection<kernels::DenseGemvBf16Args>},
    {"dense_gemv_bf16_batchm", projection<kernels::DenseGemvBf16BatchmArgs>},
    {"pack_qkv", pack_qkv},
    {"gate", gate},
    {"sigmoid", sigmoid},
    {"conv_decode", conv_decode},
    {"conv_prefill", conv_prefill},
    {"l2", l2},
    {"fill", fill},
    {"split_widen", split_widen},
    {"recurrent", recurrent},
    {"recurrent_smem", recurrent_smem},
    {"chunk_prepare", chunk_prepare},
    {"chunk_scan", chunk_scan},
    {"o_norm", o_norm},
};

}  // namespace

std::span<const CatalogueEntry> catalogue() {
  return entries;
}

}  // namespace kdart::test
