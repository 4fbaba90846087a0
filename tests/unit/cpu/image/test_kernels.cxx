// A kernel image for the tests of the CPU backend, written straight against cpu_abi.h. Its suffix keeps it out of the
// test program, which takes every *.cpp. Built three times: as it is, with another ABI version, without the table.
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels/simt/cpu_abi.h"

namespace {

using Thread = kdart_cpu_thread;

std::uint32_t block_size(const Thread& t) {
  return t.block_dim[0] * t.block_dim[1] * t.block_dim[2];
}
std::uint32_t thread_number(const Thread& t) {
  return (t.thread_idx[2] * t.block_dim[1] + t.thread_idx[1]) * t.block_dim[0] + t.thread_idx[0];
}
std::uint32_t block_number(const Thread& t) {
  return (t.block_idx[2] * t.grid_dim[1] + t.block_idx[1]) * t.grid_dim[0] + t.block_idx[0];
}
std::uint32_t global_number(const Thread& t) {
  return block_number(t) * block_size(t) + thread_number(t);
}

// Every thread adds 1 to a counter of its own.
struct VisitArgs {
  std::uint32_t* counts;
};
void visit(const VisitArgs& a, Thread& t) {
  a.counts[global_number(t)] += 1;
}
void visit_with_barrier(const VisitArgs& a, Thread& t) {
  a.counts[global_number(t)] += 1;
  t.barrier(&t);
}

// Every thread writes its own ids and dimensions: 12 numbers.
struct IdsArgs {
  std::uint32_t* ids;
};
void ids(const IdsArgs& a, Thread& t) {
  std::uint32_t* out = a.ids + 12 * static_cast<std::size_t>(global_number(t));
  for (int d = 0; d < 3; ++d) {
    out[d] = t.block_idx[d];
    out[3 + d] = t.thread_idx[d];
    out[6 + d] = t.grid_dim[d];
    out[9 + d] = t.block_dim[d];
  }
}

// Thread i ends with (i + rounds) mod the block's size, if every barrier holds.
struct RotateArgs {
  std::uint32_t* out;
  std::uint32_t rounds;
};
void rotate(const RotateArgs& a, Thread& t) {
  auto* shared = static_cast<std::uint32_t*>(t.shared);
  const std::uint32_t i = thread_number(t);
  shared[i] = i;
  for (std::uint32_t round = 0; round < a.rounds; ++round) {
    t.barrier(&t);
    const std::uint32_t value = shared[(i + 1) % block_size(t)];
    t.barrier(&t);
    shared[i] = value;
  }
  a.out[global_number(t)] = shared[i];
}
// The same with the second barrier forgotten.
void rotate_wrongly(const RotateArgs& a, Thread& t) {
  auto* shared = static_cast<std::uint32_t*>(t.shared);
  const std::uint32_t i = thread_number(t);
  shared[i] = i;
  for (std::uint32_t round = 0; round < a.rounds; ++round) {
    t.barrier(&t);
    const std::uint32_t value = shared[(i + 1) % block_size(t)];
    shared[i] = value;
  }
  a.out[global_number(t)] = shared[i];
}

// Threads from `stay` on return at once; the others sum 1 .. stay over two barriers.
struct LeaveArgs {
  std::uint32_t* out;
  std::uint32_t stay;
};
void leave(const LeaveArgs& a, Thread& t) {
  auto* shared = static_cast<std::uint32_t*>(t.shared);
  const std::uint32_t i = thread_number(t);
  if (i >= a.stay) return;
  shared[i] = 0;
  t.barrier(&t);
  shared[i] = i + 1;
  t.barrier(&t);
  std::uint32_t sum = 0;
  for (std::uint32_t k = 0; k < a.stay; ++k) sum += shared[k];
  a.out[block_number(t) * a.stay + i] = sum;
}

// data[i] = data[i] * factor + term for one i per thread: the order of two launches shows in the result.
struct AffineArgs {
  std::uint32_t* data;
  std::uint32_t count, factor, term;
};
void affine(const AffineArgs& a, Thread& t) {
  const std::uint32_t i = global_number(t);
  if (i < a.count) a.data[i] = a.data[i] * a.factor + a.term;
}

// Throws in one block.
struct FailArgs {
  std::uint32_t block;
};
void fail(const FailArgs& a, Thread& t) {
  if (block_number(t) == a.block) throw std::runtime_error("as asked");
}

struct HalveArgs {
  float* out;
  float x;
};
void halve(const HalveArgs& a, Thread&) {
  volatile float x = a.x;
  *a.out = x * 0.5F;
}

template <auto kernel, class Args>
void run_thread(const void* arguments, Thread* thread) {
  kernel(*static_cast<const Args*>(arguments), *thread);
}

template <auto kernel, class Args>
void run_block(const void* arguments, Thread* thread) {
  const std::uint32_t* dim = thread->block_dim;
  for (std::uint32_t z = 0; z < dim[2]; ++z) {
    for (std::uint32_t y = 0; y < dim[1]; ++y) {
      for (std::uint32_t x = 0; x < dim[0]; ++x) {
        thread->thread_idx[0] = x;
        thread->thread_idx[1] = y;
        thread->thread_idx[2] = z;
        kernel(*static_cast<const Args*>(arguments), *thread);
      }
    }
  }
}

// A pointer first, then 32-bit scalars; or scalars alone.
constexpr std::uint32_t pointer_first_offsets[]{0, 8, 12, 16};
constexpr std::uint32_t pointer_first_sizes[]{8, 4, 4, 4};
constexpr std::uint32_t scalar_offsets[]{0};
constexpr std::uint32_t scalar_sizes[]{4};

template <auto kernel, class Args>
constexpr kdart_cpu_kernel entry(const char* name, std::uint32_t arguments, bool barriers, bool pointer = true) {
  return {name,
          run_thread<kernel, Args>,
          barriers ? nullptr : run_block<kernel, Args>,
          barriers ? 1U : 0U,
          0,
          arguments,
          pointer ? pointer_first_offsets : scalar_offsets,
          pointer ? pointer_first_sizes : scalar_sizes};
}

constexpr kdart_cpu_kernel kernels[]{
    entry<visit, VisitArgs>("visit", 1, false),     entry<visit_with_barrier, VisitArgs>("visit_with_barrier", 1, true),
    entry<ids, IdsArgs>("ids", 1, false),           entry<ids, IdsArgs>("ids_on_the_engine", 1, true),
    entry<rotate, RotateArgs>("rotate", 2, true),   entry<rotate_wrongly, RotateArgs>("rotate_wrongly", 2, true),
    entry<leave, LeaveArgs>("leave", 2, true),      entry<affine, AffineArgs>("affine", 4, false),
    entry<fail, FailArgs>("fail", 1, false, false), entry<fail, FailArgs>("fail_on_the_engine", 1, true, false),
    entry<halve, HalveArgs>("halve", 2, false),
};

#if !defined(KDART_TEST_ABI)
#define KDART_TEST_ABI KDART_CPU_ABI_VERSION
#endif
constexpr kdart_cpu_image image{KDART_TEST_ABI, sizeof kernels / sizeof kernels[0], kernels};

}  // namespace

#if defined(KDART_TEST_NO_TABLE)
#define KDART_TEST_TABLE some_other_function
#else
#define KDART_TEST_TABLE kdart_cpu_image_v1
#endif
extern "C" __attribute__((visibility("default"))) const kdart_cpu_image* KDART_TEST_TABLE();
const kdart_cpu_image* KDART_TEST_TABLE() {
  return &image;
}
