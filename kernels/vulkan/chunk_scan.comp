// Runs the chunks of each head in order.
#version 460
#include "kernels/vulkan/chunk_scan_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"
//
#include "chunk.glsl"

// One chunk of one head: elements where it begins in each buffer.
struct Chunk {
  uint64_t keys, values;              // its first row in q and k, in out
  uint64_t key_stride, value_stride;  // from one row to the next
  uint64_t tile;                      // its first row in gc, u and w
  uint64_t state;                     // the head's
  uint valid;                         // rows that are there
};

#define KDART_C 16u
#define KDART_SCAN_CHUNK scan_16
#include "scan_chunk.glsl"
#define KDART_C 32u
#define KDART_SCAN_CHUNK scan_32
#include "scan_chunk.glsl"

// The least that chunks of 32 take. In a pipeline with less, the driver leaves out their code.
const uint words_of_32 = 2u * 32u * 64u + 32u * 32u;

void main() {
  KDART_FOR_BLOCKS(h, x, args.value_heads) {
    const uint64_t key_head = key_head_of(h, args.key_heads, args.value_heads);
    Chunk at;
    at.key_stride = uint64_t(args.key_heads) * args.key_dim;
    at.value_stride = uint64_t(args.value_heads) * args.value_dim;
    at.state = h * args.key_dim * args.value_dim;
    [[dont_unroll]] for (uint64_t n = 0ul; n < args.chunks; ++n) {
      const uint64_t token = n * args.chunk;
      at.keys = token * at.key_stride + key_head * args.key_dim;
      at.values = token * at.value_stride + h * args.value_dim;
      at.tile = (h * args.chunks + n) * args.chunk;
      at.valid = valid_rows(n);
      if (kdart_shared_words >= words_of_32 && args.chunk == 32u) {
        scan_32(at);
      } else {
        scan_16(at);
      }
    }
  }
}
