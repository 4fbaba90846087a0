#include "backends/cpu/executor.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "backends/cpu/errors.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/platform.h"
#include "core/runtime/format.h"

#if KDART_CPU_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace kdart::cpu {
namespace {

// A thread without barriers has nobody to wait for.
void no_barrier(kdart_cpu_thread*) {}

}  // namespace

BlockIndex block_index(Dim3 grid, std::uint64_t linear) noexcept {
  const std::uint64_t row = linear / grid.x;
  return {static_cast<std::uint32_t>(linear % grid.x), static_cast<std::uint32_t>(row % grid.y),
          static_cast<std::uint32_t>(row / grid.y)};
}

void describe_block(kdart_cpu_thread& thread, const LaunchOperation& launch, BlockIndex block, void* shared) noexcept {
  thread.grid_dim[0] = launch.grid.x;
  thread.grid_dim[1] = launch.grid.y;
  thread.grid_dim[2] = launch.grid.z;
  thread.block_dim[0] = launch.block.x;
  thread.block_dim[1] = launch.block.y;
  thread.block_dim[2] = launch.block.z;
  thread.block_idx[0] = block.x;
  thread.block_idx[1] = block.y;
  thread.block_idx[2] = block.z;
  thread.shared = shared;
}

void set_thread_index(kdart_cpu_thread& thread, std::uint32_t linear) noexcept {
  const std::uint32_t row = linear / thread.block_dim[0];
  thread.thread_idx[0] = linear % thread.block_dim[0];
  thread.thread_idx[1] = row % thread.block_dim[1];
  thread.thread_idx[2] = row / thread.block_dim[1];
}

void Executor::FreeMemory::operator()(void* memory) const noexcept {
  std::free(memory);
}

Executor::Executor(CpuEngine engine) : kind_(engine) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 4096, max_shared_bytes) != 0) {
    throw Error(ErrorCode::out_of_host_memory,
                detail::format("no {} bytes of host memory for a block's shared memory", max_shared_bytes));
  }
  std::memset(memory, 0, max_shared_bytes);
  shared_.reset(static_cast<std::byte*>(memory));
}

Executor::~Executor() {
#if KDART_CPU_ASAN
  ASAN_UNPOISON_MEMORY_REGION(shared_.get(), max_shared_bytes);
#endif
}

// In sanitizer and debug builds a block finds its shared memory full of NaN, so that a kernel which reads before it
// writes shows; under ASan what lies past the launch's size cannot be touched.
void Executor::prepare_shared([[maybe_unused]] const LaunchOperation& launch) noexcept {
#if KDART_CPU_ASAN
  const std::uint32_t bytes = launch.shared_bytes + launch.kernel->static_shared_bytes();
  ASAN_UNPOISON_MEMORY_REGION(shared_.get(), max_shared_bytes);
  ASAN_POISON_MEMORY_REGION(shared_.get() + bytes, max_shared_bytes - bytes);
#endif
#if KDART_CPU_ASAN || !defined(NDEBUG)
  std::memset(shared_.get(), 0xff, launch.shared_bytes);
#endif
}

void Executor::run(const LaunchOperation& launch, std::uint64_t first, std::uint64_t last) {
  const CpuKernel& kernel = *launch.kernel;
  if (kernel.barriers() && engine_ == nullptr) {
    engine_ = kind_ == CpuEngine::fibers ? make_fiber_engine() : make_thread_engine();
  }
  for (std::uint64_t linear = first; linear < last; ++linear) {
    const BlockIndex block = block_index(launch.grid, linear);
    prepare_shared(launch);
    if (kernel.barriers()) {
      engine_->run_block(launch, block, shared_.get());
      continue;
    }
    kdart_cpu_thread thread{};
    describe_block(thread, launch, block, shared_.get());
    thread.barrier = no_barrier;
    try {
      kernel.block_entry()(launch.arguments.data(), &thread);
    } catch (...) {
      throw kernel_fault(launch, block);
    }
  }
}

Error kernel_fault(const LaunchOperation& launch, BlockIndex block) {
  std::string what = "an exception";
  try {
    throw;
  } catch (const std::exception& error) {
    what = error.what();
  } catch (...) {
  }
  return Error(ErrorCode::device_fault, detail::format("kernel '{}' threw in block ({}, {}, {}): {}",
                                                       launch.kernel->name(), block.x, block.y, block.z, what));
}

}  // namespace kdart::cpu
