// Value heads in groups share a key head: the same bits as when each has a copy of it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "kdart/kda_kernels.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using namespace kdart::kernels;

constexpr std::uint32_t dim = 64;
constexpr std::uint32_t groups = 2;
constexpr std::uint32_t value_heads = 6;
constexpr std::uint32_t tokens = 19;
constexpr std::uint32_t chunk = 16;
constexpr std::size_t chunk_rows = 32;

struct Problem {
  std::uint32_t key_heads;
  std::vector<float> q, k, gate;  // [tokens, key_heads, dim]
  std::vector<float> v, beta, state;
};

Problem grouped() {
  Random random(11);
  const std::size_t keys = std::size_t{tokens} * groups * dim;
  Problem p{.key_heads = groups,
            .q = random.normals(keys, 0.1),
            .k = random.normals(keys, 0.1),
            .gate = random.uniforms(keys, -2, 0),
            .v = random.normals(std::size_t{tokens} * value_heads * dim, 1),
            .beta = random.uniforms(std::size_t{tokens} * value_heads, 0, 1),
            .state = random.normals(std::size_t{value_heads} * dim * dim, 1)};
  return p;
}

// [tokens, groups, dim] -> [tokens, value_heads, dim]
std::vector<float> copied(const std::vector<float>& shared) {
  std::vector<float> result;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < value_heads; ++h) {
      const auto head = static_cast<std::ptrdiff_t>((t * groups + h / (value_heads / groups)) * dim);
      std::copy_n(shared.begin() + head, dim, std::back_inserter(result));
    }
  }
  return result;
}

Problem with_copies(Problem p) {
  p.key_heads = value_heads;
  p.q = copied(p.q);
  p.k = copied(p.k);
  p.gate = copied(p.gate);
  return p;
}

struct Result {
  std::vector<float> out, state;
};

template <class Args>
void set_common(Args& args, const Problem& p) {
  args.key_heads = p.key_heads;
  args.value_heads = value_heads;
  args.key_dim = args.value_dim = dim;
}

// The first token.
template <class Args>
Result run_recurrent(const Problem& p, KernelRunner& runner) {
  const auto q = runner.input(p.q), k = runner.input(p.k), v = runner.input(p.v), gate = runner.input(p.gate),
             beta = runner.input(p.beta);
  const auto state = runner.inout(p.state);
  const auto out = runner.output<float>(std::size_t{value_heads} * dim);
  Args args{};
  args.q = q.get();
  args.k = k.get();
  args.v = v.get();
  args.gate = gate.get();
  args.beta = beta.get();
  args.state = state.get();
  args.out = out.get();
  args.slot_stride = p.state.size();
  args.slot_count = args.rows = 1;
  set_common(args, p);
  args.scale = 0.125F;
  if constexpr (requires { args.v_per_block; }) args.v_per_block = 32;
  runner.run(args);
  return {out.read(), state.read()};
}

Result run_chunks(const Problem& p, KernelRunner& runner) {
  const auto q = runner.input(p.q), k = runner.input(p.k), v = runner.input(p.v), gate = runner.input(p.gate),
             beta = runner.input(p.beta);
  const std::size_t tile = chunk_rows * value_heads * dim;
  const auto gc = runner.output<float>(tile), u = runner.output<float>(tile), w = runner.output<float>(tile);
  ChunkPrepareArgs prepare{};
  prepare.k = k.get();
  prepare.v = v.get();
  prepare.gate = gate.get();
  prepare.beta = beta.get();
  prepare.gc = gc.get();
  prepare.u = u.get();
  prepare.w = w.get();
  set_common(prepare, p);
  prepare.chunk = chunk;
  prepare.tokens = tokens;
  runner.run(prepare);

  const auto state = runner.inout(p.state);
  const auto out = runner.output<float>(std::size_t{tokens} * value_heads * dim);
  ChunkScanArgs scan{};
  scan.q = q.get();
  scan.k = k.get();
  scan.gc = gc.get();
  scan.u = u.get();
  scan.w = w.get();
  scan.state = state.get();
  scan.out = out.get();
  set_common(scan, p);
  scan.chunk = chunk;
  scan.chunks = 2;
  scan.tokens = tokens;
  scan.scale = 0.125F;
  runner.run(scan);
  return {out.read(), state.read()};
}

void check_equal(const Result& found, const Result& expected) {
  CHECK(same_bits(found.out, expected.out));
  CHECK(same_bits(found.state, expected.state));
}

}  // namespace

TEST_CASE("grouped value heads in the recurrence", "[kernel][bits]") {
  KernelRunner runner;
  const Problem p = grouped();
  check_equal(run_recurrent<RecurrentArgs>(p, runner), run_recurrent<RecurrentArgs>(with_copies(p), runner));
  if (!runner.has("recurrent_smem")) return;
  check_equal(run_recurrent<RecurrentSmemArgs>(p, runner), run_recurrent<RecurrentSmemArgs>(with_copies(p), runner));
}

TEST_CASE("grouped value heads in the chunked form", "[kernel][bits]") {
  KernelRunner runner;
  const Problem p = grouped();
  check_equal(run_chunks(p, runner), run_chunks(with_copies(p), runner));
}

}  // namespace kdart::test
