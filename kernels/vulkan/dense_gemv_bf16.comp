// C = A B^T + bias, row by row.
#version 460
#include "kernels/vulkan/dense_gemv_bf16_arguments.glsl"
//
#include "dialect.glsl"
//
#include "gemv.glsl"

const uint outputs = 32u;  // of one block

void main() {
  const uint64_t tiles = (uint64_t(args.n) + outputs - 1u) / outputs;
  KDART_FOR_BLOCKS(row, y, args.m) {
    KDART_FOR_BLOCKS(tile, x, tiles) {
      const uint64_t first = tile * outputs;
      barrier();  // the previous tile's partials are read
      KDART_FOR_THREADS(l, partial_count) {
        [[dont_unroll]] for (uint o = 0u; o < outputs; o += 4u) {
          vec4 sums = vec4(0.0);
          [[dont_unroll]] for (uint64_t at = l * 8u; at < args.k; at += partial_count * 8u) {
            sums = add_eight(sums, row * args.lda + at, load_weights(first + o, at));
          }
          [[unroll]] for (uint i = 0u; i < 4u; ++i) kdart_shared[(o + i) * partial_stride + l] = sums[i];
        }
      }
      barrier();
      KDART_FOR_THREADS(o, outputs) {
        if (first + o < args.n) {
          store_output(add_partials(o * partial_stride), row * args.ldc + first + o, first + o);
        }
      }
    }
  }
}
