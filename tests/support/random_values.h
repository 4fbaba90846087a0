// Seeded random values for tests: the same bits on every machine and with every standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kdart/bf16.h"

namespace kdart::test {

// splitmix64. Draws depend on the seed and on what was drawn before.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0xD1342543DE82EF95U + 0x9E3779B97F4A7C15U) {}

  std::uint64_t bits() {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }
  double uniform(double low, double high) { return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53); }
  // Near enough to a normal deviate, from additions alone: twelve uniform numbers.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform(0, 1);
    return sum;
  }

  std::vector<float> normals(std::size_t count, double deviation, double mean = 0) {
    std::vector<float> result(count);
    for (float& value : result) value = static_cast<float>(mean + deviation * normal());
    return result;
  }
  std::vector<float> uniforms(std::size_t count, double low, double high) {
    std::vector<float> result(count);
    for (float& value : result) value = static_cast<float>(uniform(low, high));
    return result;
  }
  std::vector<bf16> bf16_normals(std::size_t count, double deviation, double mean = 0) {
    std::vector<bf16> result(count);
    for (bf16& value : result) value = to_bf16(static_cast<float>(mean + deviation * normal()));
    return result;
  }

 private:
  std::uint64_t state_;
};

}  // namespace kdart::test
