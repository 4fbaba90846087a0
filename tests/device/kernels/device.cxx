// The kernels of the device tests, in the dialect of kernels/simt. Its suffix keeps it out of the test program, which takes
// every *.cpp.
#include "kernels/simt/dialect.h"

// What the contract of these tests states; the dialect brings that of the set kda.
#include "kernels/device_params.h"

#include "tests/device/kernels/place.h"

using namespace kdart_simt;

KDART_KERNEL(affine) {
  DEVICE_TEST_PLACE(place);
  const u32 i = place.number();
  if (i < count) data[i] = data[i] * factor + term;
}

KDART_KERNEL(visit) {
  DEVICE_TEST_PLACE(place);
  const u32 i = place.number();
  if (i < count) counts[i] += 1;
}

KDART_KERNEL(ids) {
  DEVICE_TEST_PLACE(place);
  const u64 i = place.number();
  if (i >= count) return;
  for (u32 d = 0; d < 3; ++d) {
    out[12 * i + d] = place.block[d];
    out[12 * i + 3 + d] = place.thread[d];
    out[12 * i + 6 + d] = place.grid[d];
    out[12 * i + 9 + d] = place.threads[d];
  }
}

// Small integers, exact as floats.
KDART_KERNEL(rotate) {
  KDART_BLOCK(block);
  float* shared = block.shared();
  const u32 i = block.thread();
  shared[i] = static_cast<float>(i);
  for (u32 round = 0; round < rounds; ++round) {
    block.barrier();
    const float value = shared[(i + 1) % threads];
    block.barrier();
    shared[i] = value;
  }
  if (block.index_x() < blocks) out[static_cast<u64>(block.index_x()) * threads + i] = static_cast<u32>(shared[i]);
}

KDART_KERNEL(many_args) {
  DEVICE_TEST_ANYWHERE();
  u32* next = out;
  const auto store = [&next](u64 x, u32 words) {
    for (u32 i = 0; i < words; ++i) *next++ = static_cast<u32>(x >> (32 * i));
  };
  const auto store_group = [&store](u32 a, u64 b, float c, const u32* p) {
    store(a, 1);
    store(b, 2);
    store(bits_of(c), 1);
    store(reinterpret_cast<u64>(p), 2);
    store(*p, 1);
  };
  store_group(a0, b0, c0, p0);
  store_group(a1, b1, c1, p1);
  store_group(a2, b2, c2, p2);
  store_group(a3, b3, c3, p3);
  store_group(a4, b4, c4, p4);
  store_group(a5, b5, c5, p5);
  store_group(a6, b6, c6, p6);
  store(static_cast<u32>(last), 1);
}

KDART_KERNEL(spin) {
  DEVICE_TEST_ANYWHERE();
  u32 x = *state;
  for (u32 i = 0; i < iterations; ++i) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
  }
  *state = x;
}

// What a device must survive; launched in child processes alone.
KDART_KERNEL(wild) {
  DEVICE_TEST_ANYWHERE();
  *reinterpret_cast<volatile u32*>(address) = value;
}

KDART_KERNEL(trap) {
  DEVICE_TEST_ANYWHERE();
  if (armed != 0) DEVICE_TEST_TRAP();
}

#if defined(KDART_DIALECT_CPU)
#include "kernels/device_cpu_table.h"
#endif
