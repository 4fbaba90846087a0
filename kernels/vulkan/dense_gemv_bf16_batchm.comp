// C = A B^T + bias for up to 16 rows with one pass over the weight.
#version 460
#include "kernels/vulkan/dense_gemv_bf16_batchm_arguments.glsl"
//
#include "dialect.glsl"
//
#include "gemv.glsl"

#define KDART_ROWS 4u
#define KDART_SUM_BATCH sum_4_rows
#include "gemv_batch.glsl"
#undef KDART_ROWS
#undef KDART_SUM_BATCH
#define KDART_ROWS 8u
#define KDART_SUM_BATCH sum_8_rows
#include "gemv_batch.glsl"
#undef KDART_ROWS
#undef KDART_SUM_BATCH
#define KDART_ROWS 16u
#define KDART_SUM_BATCH sum_16_rows
#include "gemv_batch.glsl"

const uint outputs = 4u;  // of one block

uint words_of(uint m) {
  return outputs * m * partial_stride;
}

void main() {
  const uint64_t tiles = (uint64_t(args.n) + outputs - 1u) / outputs;
  KDART_FOR_BLOCKS(tile, x, tiles) {
    const uint64_t first = tile * outputs;
    barrier();  // the previous tile's partials are read
    KDART_FOR_THREADS(l, partial_count) {
      // A pipeline has the shared memory of its m, and the driver leaves out the code for more rows.
      if (kdart_shared_words >= words_of(9u) && args.m > 8u) {
        sum_16_rows(l, first);
      } else if (kdart_shared_words >= words_of(5u) && args.m > 4u) {
        sum_8_rows(l, first);
      } else {
        sum_4_rows(l, first);
      }
    }
    barrier();
    KDART_FOR_THREADS(i, args.m * outputs) {
      const uint64_t o = first + i % outputs;
      if (o < args.n) store_output(add_partials(i * partial_stride), uint64_t(i / outputs) * args.ldc + o, o);
    }
  }
}
