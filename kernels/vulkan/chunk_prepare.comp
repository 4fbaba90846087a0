// What chunk_scan needs of one chunk, all chunks at once.
#version 460
#include "kernels/vulkan/chunk_prepare_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"
//
#include "chunk.glsl"

// One chunk of one head: elements where it begins in each buffer.
struct Chunk {
  uint64_t keys, values, betas;       // its first row in k and gate, in v, in beta
  uint64_t key_stride, value_stride;  // from one row to the next
  uint64_t tile;                      // its first row in gc, u and w
  uint valid;                         // rows that are there
};

#define KDART_C 16u
#define KDART_PREPARE_CHUNK prepare_16
#include "prepare_chunk.glsl"
#define KDART_C 32u
#define KDART_PREPARE_CHUNK prepare_32
#include "prepare_chunk.glsl"

// The least that chunks of 32 take. In a pipeline with less, the driver leaves out their code.
const uint words_of_32 = 32u * 64u + 32u * 32u + 32u;

void main() {
  const uint chunks = args.tokens / args.chunk + (args.tokens % args.chunk != 0u ? 1u : 0u);
  KDART_FOR_BLOCKS(h, y, args.value_heads) {
    const uint64_t key_head = key_head_of(h, args.key_heads, args.value_heads);
    KDART_FOR_BLOCKS(n, x, chunks) {
      Chunk at;
      const uint64_t token = n * args.chunk;
      at.key_stride = uint64_t(args.key_heads) * args.key_dim;
      at.value_stride = uint64_t(args.value_heads) * args.value_dim;
      at.keys = token * at.key_stride + key_head * args.key_dim;
      at.values = token * at.value_stride + h * args.value_dim;
      at.betas = token * args.value_heads + h;
      at.tile = (h * chunks + n) * args.chunk;
      at.valid = valid_rows(n);
      if (kdart_shared_words >= words_of_32 && args.chunk == 32u) {
        prepare_32(at);
      } else {
        prepare_16(at);
      }
    }
  }
}
