// Kernels that move, widen or fill: pack_qkv, split_widen, sigmoid, fill.
#pragma once

#include "kernels/simt/math.h"

namespace kdart_simt {

KDART_KERNEL(pack_qkv) {
  KDART_BLOCK(block);
  const u64 width = 2 * static_cast<u64>(key_channels) + value_channels;
  const u64 widest = key_channels > value_channels ? key_channels : value_channels;
  KDART_FOR_BLOCKS(t, y, tokens) {
    KDART_FOR_TILES(first, x, widest) {
      const u64 c = first + block.thread();
      kdart_bf16* row = out + t * width;
      if (c < key_channels) {
        row[c] = q[t * key_channels + c];
        row[key_channels + c] = k[t * key_channels + c];
      }
      if (c < value_channels) row[2 * static_cast<u64>(key_channels) + c] = v[t * value_channels + c];
    }
  }
}

KDART_KERNEL(split_widen) {
  KDART_BLOCK(block);
  const u64 width = 2 * static_cast<u64>(key_channels) + value_channels;
  const u64 widest = key_channels > value_channels ? key_channels : value_channels;
  KDART_FOR_BLOCKS(t, y, tokens) {
    KDART_FOR_TILES(first, x, widest) {
      const u64 c = first + block.thread();
      const kdart_bf16* row = qkv + t * width;
      if (c < key_channels) {
        q[t * key_channels + c] = widen(row[c]);
        k[t * key_channels + c] = widen(row[key_channels + c]);
      }
      if (c < value_channels) v[t * value_channels + c] = widen(row[2 * static_cast<u64>(key_channels) + c]);
    }
  }
}

KDART_KERNEL(sigmoid) {
  KDART_BLOCK(block);
  KDART_FOR_TILES(first, x, n) {
    const u64 i = first + block.thread();
    if (i < n) out[i] = sigmoid(widen(b[i]));
  }
}

KDART_KERNEL(fill) {
  KDART_BLOCK(block);
  KDART_FOR_TILES(first, x, n) {
    const u64 i = first + block.thread();
    if (i < n) dst[i] = value;
  }
}

}  // namespace kdart_simt
