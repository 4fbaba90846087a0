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
        // Eight outputs together, so that enough loads are on their way.
        [[dont_unroll]] for (uint o = 0u; o < outputs; o += 8u) {
          vec4 low = vec4(0.0), high = vec4(0.0);
          [[dont_unroll]] for (uint64_t at = l * 8u; at < args.k; at += partial_count * 8u) {
            const Weights low_weights = load_weights(first + o, at), high_weights = load_weights(first + o + 4u, at);
            const Inputs inputs = load_inputs(row * args.lda + at);
            low = add_eight(low, inputs, low_weights);
            high = add_eight(high, inputs, high_weights);
          }
          [[unroll]] for (uint i = 0u; i < 4u; ++i) {
            kdart_shared[(o + i) * partial_stride + l] = low[i];
            kdart_shared[(o + 4u + i) * partial_stride + l] = high[i];
          }
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
