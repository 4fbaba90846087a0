// Writes every argument out, and what the addresses among them hold.
#version 460
#include "kernels/vulkan/many_args_arguments.glsl"

void store_two(uint64_t i, uint64_t x) {
  store_out(i, uint(x));
  store_out(i + 1ul, uint(x >> 32));
}

#define KDART_STORE_GROUP(g)                            \
  store_out(7ul * g, args.a##g);                        \
  store_two(7ul * g + 1ul, args.b##g);                  \
  store_out(7ul * g + 3ul, floatBitsToUint(args.c##g)); \
  store_two(7ul * g + 4ul, uint64_t(args.p_p##g));      \
  store_out(7ul * g + 6ul, load_p##g(0ul))

void main() {
  KDART_STORE_GROUP(0);
  KDART_STORE_GROUP(1);
  KDART_STORE_GROUP(2);
  KDART_STORE_GROUP(3);
  KDART_STORE_GROUP(4);
  KDART_STORE_GROUP(5);
  KDART_STORE_GROUP(6);
  store_out(49ul, uint(args.last));
}
