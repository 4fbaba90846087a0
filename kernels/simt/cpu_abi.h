/* What a CPU kernel image exports: the boundary between the CPU backend and a shared object built from kernels/simt.
 * Plain C types only, so that an image built by another compiler, or with other sanitizers, can be loaded. */
#pragma once

/* NOLINTBEGIN: plain C. */

#include <stdint.h>

#define KDART_CPU_ABI_VERSION 1u

/* One thread of a block, as the engine presents it to a kernel. The engine owns it; it lives as long as the block. */
typedef struct kdart_cpu_thread {
  uint32_t grid_dim[3];
  uint32_t block_dim[3];
  uint32_t block_idx[3];
  uint32_t thread_idx[3];
  void* shared;                                   /* the block's dynamic shared memory, 64-byte aligned */
  void (*barrier)(struct kdart_cpu_thread* self); /* returns when every thread of the block has called it */
  void* engine;                                   /* the engine's own */
} kdart_cpu_thread;

/* Runs one thread. `arguments` is the argument block of the contract. */
typedef void (*kdart_cpu_entry)(const void* arguments, kdart_cpu_thread* thread);

typedef struct kdart_cpu_kernel {
  const char* name;
  kdart_cpu_entry thread_entry; /* one thread; may call barrier() when `barriers` is 1 */
  kdart_cpu_entry block_entry;  /* every thread of a block in turn (sets thread_idx); null when `barriers` is 1 */
  uint32_t barriers;
  uint32_t static_shared_bytes;
  uint32_t argument_count;
  const uint32_t* argument_offsets; /* as the compiler laid them out */
  const uint32_t* argument_sizes;
} kdart_cpu_kernel;

typedef struct kdart_cpu_image {
  uint32_t abi_version;
  uint32_t kernel_count;
  const kdart_cpu_kernel* kernels;
} kdart_cpu_image;

/* The one symbol that is looked up. */
#define KDART_CPU_IMAGE_SYMBOL "kdart_cpu_image_v1"
typedef const kdart_cpu_image* (*kdart_cpu_image_fn)(void);

/* NOLINTEND */
