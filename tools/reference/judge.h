// The per-kernel bounds of kda.md section 6: a kernel's output against the float64 truth on the kernel's own inputs.
// Comparing nothing does not pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "kdart/bf16.h"

namespace kdart::reference {

struct Comparison {
  bool pass = false;
  bool finite = true;  // false when a value is NaN, or infinite where the truth is not
  std::size_t elements = 0;
  std::size_t outside = 0;  // f32: elements outside the bound; bf16: elements that differ
  std::size_t outside_allowed = 0;
  std::uint32_t worst_ulps = 0;  // bf16 only
  double worst_ratio = 0;        // f32: largest |x - truth| / allowed
  std::size_t worst_index = 0;
  double worst_value = 0;
  double worst_truth = 0;  // bf16: after rounding

  // One line for a test's message.
  [[nodiscard]] std::string text() const;
};

// The largest finite |value| of a kernel's f32 inputs, 0 for none.
[[nodiscard]] double largest_magnitude(std::initializer_list<std::span<const float>> inputs);

// Every element within 2e-6 x max(1, L) absolute, or within 1e-4 relative, of the truth; L is the larger of
// `largest_input` and the largest |truth|. Throws Error(invalid_argument) when the lengths differ.
[[nodiscard]] Comparison compare_f32(std::span<const float> x, std::span<const double> truth, double largest_input);

// Vulkan lets a device take denormals for 0 and many do, so what is closer to 0 than the smallest normal f32 may be 0 there.
enum class Denormals : std::uint8_t { kept, may_flush };

// At most max(1 element, 0.5%) differ from the correctly rounded truth, and by 1 ulp. +0 and -0 are equal.
// Throws Error(invalid_argument) when the lengths differ.
[[nodiscard]] Comparison compare_bf16(std::span<const bf16> x, std::span<const double> truth,
                                      Denormals denormals = Denormals::kept);

}  // namespace kdart::reference
