// Which vector instructions the inner loops of the reference may use on the processor at hand. Each of them is one
// function template, compiled once per level in a function that has the level's instructions.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#define KDART_WITH_AVX2 [[gnu::target("avx2,fma")]]
#define KDART_WITH_AVX512 [[gnu::target("avx512f,avx2,fma")]]
#else
#define KDART_WITH_AVX2
#define KDART_WITH_AVX512
#endif

namespace kdart::reference {

enum class VectorUnits : std::uint8_t { plain, avx2, avx512 };

[[nodiscard]] inline VectorUnits vector_units() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") != 0) return VectorUnits::avx512;
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) return VectorUnits::avx2;
#endif
  return VectorUnits::plain;
}

}  // namespace kdart::reference
