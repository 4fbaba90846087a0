// The small dialect in which the kernels are written, for three compilers: nvcc, clang's AMD target, and the host's.
//
// A kernel is   KDART_KERNEL(name) { KDART_BLOCK(block); .. }   with the parameters that the contract gives it. `block`
// says which thread this is. The rules that keep one source right on all of them:
//
// * No warp size is assumed: threads meet at block.barrier() alone, and every thread of a block reaches each one.
// * Threads of a block pass values through shared memory only. A pointer parameter is KDART_RESTRICT, so the compiler may
//   move accesses to what it points to across a barrier.
// * Multiply and add round separately, divide and square root are IEEE's, denormals are kept. The build's flags and the
//   functions of math.h see to it; the bits are then the same everywhere.
// * Offsets into buffers are 64-bit.
// * A grid axis is at most 65,535 blocks: kernels loop over what lies beyond (KDART_FOR_BLOCKS, KDART_FOR_TILES).
#pragma once

#if defined(__CUDACC__)
#define KDART_DIALECT_CUDA 1
#elif defined(__HIP__)
#define KDART_DIALECT_HIP 1
#else
#define KDART_DIALECT_CPU 1
#endif

#if defined(KDART_DIALECT_CPU)
#include "kernels/simt/cpu_abi.h"
#endif

using kdart_bf16 = unsigned short;  // the upper half of a float

namespace kdart_simt {

// Eight bf16 as they lie in memory.
struct Words {
  unsigned int w[4];
};

}  // namespace kdart_simt

#define KDART_RESTRICT __restrict__

#include "kernels/kda_params.h"

#if defined(KDART_DIALECT_CUDA)
#include "kernels/simt/dialect_cuda.h"
#elif defined(KDART_DIALECT_HIP)
#include "kernels/simt/dialect_hip.h"
#else
#include "kernels/simt/dialect_cpu.h"
#endif

namespace kdart_simt {

using u32 = unsigned int;
using u64 = unsigned long long;

KDART_DEVICE u32 bits_of(float x) {
  return __builtin_bit_cast(u32, x);
}
KDART_DEVICE float float_from_bits(u32 u) {
  return __builtin_bit_cast(float, u);
}

// 32 bits: GPUs divide 64-bit numbers in a slow call.
KDART_DEVICE u32 ceil_div(u32 x, u32 y) {
  return x / y + (x % y != 0 ? 1u : 0u);
}

// Value heads in groups share a key head; today the groups are of one.
KDART_DEVICE u64 key_head_of(u64 value_head, u32 key_heads, u32 value_heads) {
  return static_cast<u32>(value_head) / (value_heads / key_heads);
}

KDART_DEVICE float widen(kdart_bf16 x) {
  return float_from_bits(static_cast<u32>(x) << 16);
}

// Round to nearest, ties to even. Beyond the largest bf16 lies infinity; a NaN stays a NaN, quiet.
KDART_DEVICE kdart_bf16 round_to_bf16(float x) {
  const u32 u = bits_of(x);
  const u32 rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  const u32 quiet = (u >> 16) | 0x0040u;
  return static_cast<kdart_bf16>((u & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded);
}

// Eight neighbouring values, widened.
struct Eight {
  float x[8];
};

// `p` is 16-byte aligned.
KDART_DEVICE Eight load_eight(const kdart_bf16* p) {
  const Words words = load_words(p);
  Eight out;
  KDART_UNROLL
  for (u32 i = 0, at = 0; i < 4; ++i, at += 2) {
    out.x[at] = float_from_bits(words.w[i] << 16);
    out.x[at + 1] = float_from_bits(words.w[i] & 0xFFFF0000u);
  }
  return out;
}

}  // namespace kdart_simt

// NOLINTBEGIN(bugprone-macro-parentheses): the names are declared.

// for every index below `count` that is this block's, on one axis of the grid
#define KDART_FOR_BLOCKS(name, axis, count)                                                  \
  for (u64 name = block.index_##axis(), kdart_end_##name = (count); name < kdart_end_##name; \
       name += block.blocks_##axis())

// for every stretch of block.threads() indices below `count` that is this block's, on one axis: `name` is its first index
#define KDART_FOR_TILES(name, axis, count)                                                              \
  for (u64 name = static_cast<u64>(block.index_##axis()) * block.threads(), kdart_end_##name = (count); \
       name < kdart_end_##name; name += static_cast<u64>(block.blocks_##axis()) * block.threads())

// for every index below `count` that is this thread's within its block
#define KDART_FOR_THREADS(name, count) \
  for (u32 name = block.thread(), kdart_end_##name = (count); name < kdart_end_##name; name += block.threads())

// NOLINTEND(bugprone-macro-parentheses)
