// Running the blocks of a launch on the calling thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/operation.h"
#include "kdart/device_info.h"
#include "kdart/error.h"
#include "kernels/simt/cpu_abi.h"

namespace kdart::cpu {

inline constexpr std::uint32_t max_block_threads = 1024;
inline constexpr std::uint32_t max_shared_bytes = 65536;

struct BlockIndex {
  std::uint32_t x, y, z;
};
// The index of the `linear`-th block, x fastest.
[[nodiscard]] BlockIndex block_index(Dim3 grid, std::uint64_t linear) noexcept;

// Fills in all but the thread's own index.
void describe_block(kdart_cpu_thread& thread, const LaunchOperation& launch, BlockIndex block, void* shared) noexcept;
// The index of the `linear`-th thread of a block, x fastest.
void set_thread_index(kdart_cpu_thread& thread, std::uint32_t linear) noexcept;

// How the threads of one block that has barriers are run. Used by one thread at a time.
class BlockEngine {
 public:
  virtual ~BlockEngine() = default;
  BlockEngine(const BlockEngine&) = delete;
  BlockEngine& operator=(const BlockEngine&) = delete;
  // Runs a block to its end. Throws Error: device_fault when the kernel threw, out_of_host_memory when there is no stack
  // or thread left for it.
  virtual void run_block(const LaunchOperation& launch, BlockIndex block, void* shared) = 0;

 protected:
  BlockEngine() = default;
};
// One fiber per thread of the block, on pooled stacks.
[[nodiscard]] std::unique_ptr<BlockEngine> make_fiber_engine();
// One operating system thread per thread of the block, reused from block to block.
[[nodiscard]] std::unique_ptr<BlockEngine> make_thread_engine();

// A thread's own means of running blocks: shared memory for one block, and an engine. Used by one thread at a time.
class Executor {
 public:
  // Throws Error(out_of_host_memory).
  explicit Executor(CpuEngine engine);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Runs blocks [first, last) of a launch. Throws what BlockEngine::run_block throws.
  void run(const LaunchOperation& launch, std::uint64_t first, std::uint64_t last);

 private:
  void prepare_shared(const LaunchOperation& launch) noexcept;

  CpuEngine kind_;
  std::unique_ptr<BlockEngine> engine_;  // made by the first kernel with barriers
  struct FreeMemory {
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<std::byte, FreeMemory> shared_;
};

// The Error for an exception that left a kernel: a fault of the kernel's, named. Call in a catch block only.
[[nodiscard]] Error kernel_fault(const LaunchOperation& launch, BlockIndex block);

}  // namespace kdart::cpu
