// The output norm and gate: RMSNorm over a head, the weight, a sigmoid gate, one rounding.
#version 460
#include "kernels/vulkan/o_norm_arguments.glsl"
//
#include "dialect.glsl"
#include "math.glsl"

// Shared memory: the squares of a head, then its norm.
void main() {
  const uint head_dim = args.head_dim;
  KDART_FOR_BLOCKS(t, y, args.tokens) {
    KDART_FOR_BLOCKS(h, x, args.heads) {
      const uint64_t row = (t * args.heads + h) * head_dim;
      barrier();  // the previous row's norm is read
      KDART_FOR_THREADS(c, head_dim) {
        const float value = load_core(row + c);
        precise float square = value * value;
        kdart_shared[c] = square;
      }
      barrier();
      if (KDART_THREAD == 0u) {
        precise float sum = 0.0;
        [[dont_unroll]] for (uint c = 0u; c < head_dim; ++c) sum = sum + kdart_shared[c];
        precise float mean = sum / float(head_dim) + args.eps;
        kdart_shared[head_dim] = sqrt(mean);
      }
      barrier();
      KDART_FOR_THREADS(c, head_dim) {
        precise float normalised = load_core(row + c) / kdart_shared[head_dim] * widen(load_weight(c));
        precise float gated = normalised * sigmoid(widen(load_z(row + c)));
        store_out(row + c, round_to_bf16(gated));
      }
    }
  }
}
