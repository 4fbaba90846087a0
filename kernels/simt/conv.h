// The causal depthwise convolution with SiLU, and the L2 normalisation of q and k by head: conv_decode does both,
// conv_prefill and l2 one each. They share every operation, so the two ways give the same bits.
#pragma once

#include "kernels/simt/math.h"

namespace kdart_simt {

// Normalises the leading channels of this block by head, where `value` is the thread's channel `c`, and rounds once.
// Heads lie whole inside a block: head_dim divides its width. `work` holds two floats per thread.
// Every thread of the block calls it; `store` says whether this one has an output.
KDART_DEVICE void normalise_and_store(const Block& block, float* work, float value, u64 c, u32 qk_channels,
                                      u32 head_dim, float eps, bool store, kdart_bf16* out) {
  float* values = work;
  float* norms = work + block.threads();
  const u32 i = block.thread();
  block.barrier();  // the previous tile's values are read
  values[i] = value;
  block.barrier();
  if (c < qk_channels && i % head_dim == 0) {
    float sum = 0.0f;
    for (u32 j = 0; j < head_dim; ++j) sum = sum + values[i + j] * values[i + j];
    norms[i / head_dim] = square_root(sum + eps);
  }
  block.barrier();
  if (store) *out = round_to_bf16(c < qk_channels ? value / norms[i / head_dim] : value);
}

KDART_KERNEL(conv_decode) {
  KDART_BLOCK(block);
  KDART_FOR_BLOCKS(row, y, rows) {
    const u32 slot = slots != nullptr ? slots[row] : static_cast<u32>(row);
    const bool live = slot < slot_count;
    KDART_FOR_TILES(first, x, channels) {
      const u64 c = first + block.thread();
      float value = 0.0f;
      if (live && c < channels) {
        float* window = state + slot * slot_stride + c * taps;
        const kdart_bf16* weight = w + c * taps;
        float sum = 0.0f;
        for (u32 j = 0; j < taps; ++j) {
          const float input = j + 1 < taps ? window[j + 1] : widen(x[row * x_stride + c]);
          window[j] = input;
          sum = sum + input * widen(weight[j]);
        }
        value = silu(sum);
      }
      normalise_and_store(block, block.shared(), value, c, qk_channels, head_dim, l2_eps, c < channels,
                          out + row * out_stride + c);
    }
  }
}

KDART_KERNEL(conv_prefill) {
  KDART_BLOCK(block);
  KDART_FOR_TILES(first, x, channels) {
    const u64 c = first + block.thread();
    if (c >= channels || tokens == 0) continue;
    float* window = state + c * taps;
    const kdart_bf16* weight = w + c * taps;
    // What tap j meets at token t: an input of this call, or a slot of the state before it.
    const auto input = [&](u64 t, u32 j) {
      const u64 at = t + j + 1;  // counted from `taps` tokens before the first
      return at < taps ? window[at] : widen(x[(at - taps) * x_stride + c]);
    };
    for (u64 t = 0; t < tokens; ++t) {
      float sum = 0.0f;
      for (u32 j = 0; j < taps; ++j) sum = sum + input(t, j) * widen(weight[j]);
      out[t * out_stride + c] = silu(sum);
    }
    // In ascending order: slot j takes from a slot after it, which is still the old one.
    for (u32 j = 0; j < taps; ++j) window[j] = input(tokens - 1, j);
  }
}

KDART_KERNEL(l2) {
  KDART_BLOCK(block);
  KDART_FOR_BLOCKS(t, y, tokens) {
    KDART_FOR_TILES(first, x, channels) {
      const u64 c = first + block.thread();
      const float value = c < channels ? in[t * in_stride + c] : 0.0f;
      normalise_and_store(block, block.shared(), value, c, qk_channels, head_dim, l2_eps, c < channels,
                          out + t * out_stride + c);
    }
  }
}

}  // namespace kdart_simt
