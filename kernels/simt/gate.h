// The log-decay of every key channel, by one of two laws.
#pragma once

#include "kernels/simt/math.h"

namespace kdart_simt {

// exp is 0 in f32 below this, and sums over a chunk stay finite and exact. Written so that a NaN passes.
KDART_DEVICE float raise_to_floor(float log_decay) {
  return log_decay < -110.0f ? -110.0f : log_decay;
}

KDART_KERNEL(gate) {
  KDART_BLOCK(block);
  const u64 channels = static_cast<u64>(heads) * head_dim;
  KDART_FOR_TILES(first, x, channels) {
    const u64 c = first + block.thread();
    if (c >= channels) continue;
    const float rate = exp(a_log[static_cast<u32>(c) / head_dim]);
    const float bias = dt_bias[c];
    KDART_FOR_BLOCKS(t, y, tokens) {
      const float x = widen(f[t * channels + c]) + bias;
      const float log_decay = law == 0 ? -(rate * softplus(x)) : lower_bound * sigmoid(rate * x);
      out[t * channels + c] = raise_to_floor(log_decay);
    }
  }
}

}  // namespace kdart_simt
