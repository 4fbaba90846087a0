// Where a value is held, for AMD's compiler. It keeps what is the same for every thread of a wave in scalar registers, about a
// hundred, and brings all of an unrolled loop's addresses, conditions and constants out of the loops around it, until it spills
// hundreds of them. What stands here says which values to hold in a thread's own registers, and which to make anew where they
// are used. No value changes; for the other compilers all of it is nothing.
#pragma once

#include "kernels/simt/dialect.h"

namespace kdart_simt {

#if defined(KDART_DIALECT_HIP)

// Statements that do nothing, but that the compiler can neither move out of a loop nor see through. The pointers name their
// address space (1 global, 3 shared): without it, what is read through them would go through the slow generic path.
template <class T>
KDART_DEVICE T* in_thread(T* p) {
  auto global = (__attribute__((address_space(1))) T*)p;
  asm volatile("" : "+v"(global));
  return (T*)global;
}
template <class T>
KDART_DEVICE T* shared_in_thread(T* p) {
  auto local = (__attribute__((address_space(3))) T*)p;
  asm volatile("" : "+v"(local));
  return (T*)local;
}
template <class T>
KDART_DEVICE T afresh(T x) {
  asm volatile("" : "+s"(x));
  return x;
}
KDART_DEVICE void settle(float& x) {
  asm volatile("" : "+v"(x));
}

#else

// A pointer to global memory, in the thread's registers.
template <class T>
KDART_DEVICE T* in_thread(T* p) {
  return p;
}
// The same for a pointer to shared memory.
template <class T>
KDART_DEVICE T* shared_in_thread(T* p) {
  return p;
}
// A number that is the same for every thread of the block: what is made of it is made after this.
template <class T>
KDART_DEVICE T afresh(T x) {
  return x;
}
// x is computed before this, and what reads it after.
KDART_DEVICE void settle(float&) {}

#endif

}  // namespace kdart_simt
