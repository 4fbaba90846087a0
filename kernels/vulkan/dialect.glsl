// What every kernel here includes after its generated arguments. The kernels are those of kernels/simt in GLSL, with
// the same operations in the same order; what that order is for is said there.
//
// The rules that keep them right on every device:
//
// * No subgroup operation and no assumed subgroup size: threads meet at barrier() alone, and every thread of a block
//   reaches each one. They pass values through shared memory only.
// * Multiply and add round separately: every variable that holds a float's arithmetic is `precise`. The build refuses a
//   module with float arithmetic that a compiler may contract or reorder.
// * A NaN is told by its bits: drivers may take comparisons for those of numbers. So is a zero whose sign matters.
// * Offsets into buffers are 64-bit.
// * A grid axis is at most 65,535 blocks: kernels loop over what lies beyond.

#define KDART_THREAD gl_LocalInvocationID.x
#define KDART_THREADS gl_WorkGroupSize.x

// for every index below `count` that is this block's, on one axis of the grid
#define KDART_FOR_BLOCKS(name, axis, count) \
  [[dont_unroll]] for (uint64_t name = gl_WorkGroupID.axis; name < uint64_t(count); name += gl_NumWorkGroups.axis)

// for every stretch of KDART_THREADS indices below `count` that is this block's, on one axis: `name` is its first index
#define KDART_FOR_TILES(name, axis, count)                                                                      \
  [[dont_unroll]] for (uint64_t name = uint64_t(gl_WorkGroupID.axis) * KDART_THREADS; name < uint64_t(count); \
                       name += uint64_t(gl_NumWorkGroups.axis) * KDART_THREADS)

// for every index below `count` that is this thread's within its block
#define KDART_FOR_THREADS(name, count) \
  [[dont_unroll]] for (uint name = KDART_THREAD; name < (count); name += KDART_THREADS)

// Value heads in groups share a key head; today the groups are of one.
uint64_t key_head_of(uint64_t value_head, uint key_heads, uint value_heads) {
  return uint(value_head) / (value_heads / key_heads);
}

bool is_nan(float x) {
  return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u;
}

// Where a sum that began at +0 is 0, it is +0; a driver that leaves out the first addition may have made it -0.
float positive_zero(float x) {
  const uint u = floatBitsToUint(x);
  return uintBitsToFloat((u & 0x7FFFFFFFu) == 0u ? 0u : u);
}

float widen(uint bf16) {
  return uintBitsToFloat(bf16 << 16);
}

// Round to nearest, ties to even. Beyond the largest bf16 lies infinity; a NaN stays a NaN, quiet.
uint round_to_bf16(float x) {
  const uint u = floatBitsToUint(x);
  const uint rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  const uint quiet = (u >> 16) | 0x0040u;
  return (u & 0x7FFFFFFFu) > 0x7F800000u ? quiet : rounded;
}
