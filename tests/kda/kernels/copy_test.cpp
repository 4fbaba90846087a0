// pack_qkv, split_widen and fill: they move bits and compute nothing.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <limits>

#include "kdart/kda_kernels.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

// Any bits at all, every kind of NaN among them.
std::vector<bf16> random_bits(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  std::vector<bf16> result(count);
  for (bf16& value : result) value.bits = static_cast<std::uint16_t>(random.bits());
  return result;
}

struct Widths {
  std::uint32_t tokens, key, value;
};

}  // namespace

TEST_CASE("pack_qkv puts rows side by side, any bits", "[kernel][copy]") {
  KernelRunner runner;
  // Widths below, at and above a block; keys and values of different width; more rows than a grid axis has blocks.
  const auto [tokens, key, value] =
      GENERATE(Widths{1, 64, 64}, Widths{5, 320, 320}, Widths{3, 256, 512}, Widths{2, 300, 100}, Widths{65'540, 2, 2});
  CAPTURE(tokens, key, value);
  const auto q = random_bits(1, std::size_t{tokens} * key);
  const auto k = random_bits(2, std::size_t{tokens} * key);
  const auto v = random_bits(3, std::size_t{tokens} * value);
  const auto device_q = runner.input(q);
  const auto device_k = runner.input(k);
  const auto device_v = runner.input(v);
  const std::size_t width = 2 * std::size_t{key} + value;
  const auto out = runner.output<bf16>(tokens * width);
  runner.run(kernels::PackQkvArgs{.q = device_q.get(),
                                  .k = device_k.get(),
                                  .v = device_v.get(),
                                  .out = out.get(),
                                  .tokens = tokens,
                                  .key_channels = key,
                                  .value_channels = value});
  std::vector<bf16> expected;
  for (std::size_t t = 0; t < tokens; ++t) {
    const auto add = [&](const std::vector<bf16>& x, std::size_t n) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(t * n);
      expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(n));
    };
    add(q, key);
    add(k, key);
    add(v, value);
  }
  CHECK(same_bits(out.read(), expected));
}

TEST_CASE("split_widen takes rows apart and widens exactly", "[kernel][copy]") {
  KernelRunner runner;
  const auto [tokens, key, value] =
      GENERATE(Widths{1, 64, 64}, Widths{5, 320, 320}, Widths{3, 256, 512}, Widths{2, 300, 100}, Widths{65'540, 2, 2});
  CAPTURE(tokens, key, value);
  const std::size_t width = 2 * std::size_t{key} + value;
  const auto qkv = random_bits(4, tokens * width);
  const auto device_qkv = runner.input(qkv);
  const auto q = runner.output<float>(std::size_t{tokens} * key);
  const auto k = runner.output<float>(std::size_t{tokens} * key);
  const auto v = runner.output<float>(std::size_t{tokens} * value);
  runner.run(kernels::SplitWidenArgs{.qkv = device_qkv.get(),
                                     .q = q.get(),
                                     .k = k.get(),
                                     .v = v.get(),
                                     .tokens = tokens,
                                     .key_channels = key,
                                     .value_channels = value});
  const auto part = [&](std::size_t first, std::size_t n) {
    std::vector<float> result;
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t c = first; c < first + n; ++c) result.push_back(to_float(qkv[t * width + c]));
    }
    return result;
  };
  CHECK(same_bits(q.read(), part(0, key)));
  CHECK(same_bits(k.read(), part(key, key)));
  CHECK(same_bits(v.read(), part(2 * std::size_t{key}, value)));
}

TEST_CASE("fill writes its value and nothing beside it", "[kernel][copy]") {
  KernelRunner runner;
  const auto value = GENERATE(0.0F, -7.5F, 1e30F, std::numeric_limits<float>::quiet_NaN());
  for (const std::uint64_t n : {1U, 255U, 256U, 257U, 100'003U}) {
    CAPTURE(value, n);
    const auto dst = runner.output<float>(n);
    runner.run(kernels::FillArgs{.dst = dst.get(), .n = n, .value = value});
    CHECK(same_bits(dst.read(), std::vector<float>(n, value)));
  }
}

TEST_CASE("fill covers more than a grid axis of blocks", "[kernel][copy]") {
  KernelRunner runner;
  constexpr std::uint64_t n = 65'535ULL * 256 + 1000;
  const auto dst = runner.output<float>(n);
  runner.run(kernels::FillArgs{.dst = dst.get(), .n = n, .value = 3.0F});
  CHECK(same_bits(dst.read(), std::vector<float>(n, 3.0F)));
}

}  // namespace kdart::test
