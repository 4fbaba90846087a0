// The output norm and gate: RMSNorm over a head, the weight, a sigmoid gate, one rounding.
#pragma once

#include "kernels/simt/math.h"

namespace kdart_simt {

KDART_KERNEL(o_norm) {
  KDART_BLOCK(block);
  float* squares = block.shared();
  float* norm = squares + head_dim;
  KDART_FOR_BLOCKS(t, y, tokens) {
    KDART_FOR_BLOCKS(h, x, heads) {
      const u64 row = (t * heads + h) * head_dim;
      block.barrier();  // the previous row's norm is read
      KDART_FOR_THREADS(c, head_dim) squares[c] = core[row + c] * core[row + c];
      block.barrier();
      if (block.thread() == 0) {
        float sum = 0.0f;
        for (u32 c = 0; c < head_dim; ++c) sum = sum + squares[c];
        *norm = square_root(sum / static_cast<float>(head_dim) + eps);
      }
      block.barrier();
      KDART_FOR_THREADS(c, head_dim) {
        const float normalised = core[row + c] / *norm * widen(weight[c]);
        out[row + c] = round_to_bf16(normalised * sigmoid(widen(z[row + c])));
      }
    }
  }
}

}  // namespace kdart_simt
