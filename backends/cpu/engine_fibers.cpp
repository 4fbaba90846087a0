// A block as one fiber per thread. A barrier switches to the next fiber of the ring; when the switch comes back around,
// every thread of the block has reached the barrier. So a barrier costs one switch per thread and nothing is scheduled.
// A thread that returns leaves the ring, and barriers no longer wait for it.
#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "backends/cpu/errors.h"
#include "backends/cpu/executor.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/platform.h"

#if KDART_CPU_ASAN
#include <sanitizer/common_interface_defs.h>
#endif

namespace kdart::cpu {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t stack_bytes = address_sanitizer ? 256 * 1024 : 64 * 1024;
constexpr std::size_t guard_bytes = std::size_t{64} * 1024;  // at least one page on every page size
constexpr std::size_t stack_stride = stack_bytes + guard_bytes;

// Address space for the stacks of the largest block, reserved at once; a stack becomes memory when it is first used. The
// gaps between stacks stay unmapped, so an overflow faults instead of corrupting a neighbour.
class Stacks {
 public:
  Stacks() {
    void* memory =
        mmap(nullptr, stack_stride * max_block_threads, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw os_error(ErrorCode::out_of_host_memory, "reserving fiber stacks", errno);
    base_ = static_cast<std::byte*>(memory);
  }
  ~Stacks() { munmap(base_, stack_stride * max_block_threads); }
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;

  // Makes the first `count` stacks usable.
  void commit(std::uint32_t count) {
    for (; committed_ < count; ++committed_) {
      if (mprotect(bottom(committed_), stack_bytes, PROT_READ | PROT_WRITE) != 0) {
        throw os_error(ErrorCode::out_of_host_memory, "mapping a fiber stack", errno);
      }
    }
  }
  [[nodiscard]] std::byte* bottom(std::uint32_t i) const noexcept { return base_ + stack_stride * i + guard_bytes; }
  // Where fiber i starts. The stride is a multiple of the page size, so without an offset of its own every stack would
  // compete for the same few sets of the first-level cache.
  [[nodiscard]] std::byte* top(std::uint32_t i) const noexcept {
    return bottom(i) + stack_bytes - std::size_t{64} * ((i * 11) % 64);
  }

 private:
  std::byte* base_ = nullptr;
  std::uint32_t committed_ = 0;
};

class FiberEngine;

struct Fiber {
  kdart_cpu_thread thread{};
  FiberEngine* engine = nullptr;
  context::fcontext_t state = nullptr;
  Fiber* next = nullptr;
  Fiber* previous = nullptr;
  const void* stack = nullptr;  // bottom and size, for ASan alone
  std::size_t stack_size = 0;
  void* fake_stack = nullptr;
};

class FiberEngine final : public BlockEngine {
 public:
  void run_block(const LaunchOperation& launch, BlockIndex block, void* shared) override;
  // Runs one thread of the block to its end and takes its fiber out of the ring. Returns the fiber to go on with.
  [[nodiscard]] Fiber& run_thread(Fiber& fiber) noexcept;

 private:
  void reset_ring(std::uint32_t threads, void* shared);

  Stacks stacks_;
  std::vector<Fiber> fibers_;
  Fiber main_;  // the thread that called run_block
  const LaunchOperation* launch_ = nullptr;
  BlockIndex block_{};
  std::optional<Error> error_;
};

// Having arrived on a fiber: the one we came from left its state in the transfer.
void arrive([[maybe_unused]] const Fiber& self, context::transfer_t transfer) noexcept {
  auto* from = static_cast<Fiber*>(transfer.data);
  from->state = transfer.fctx;
#if KDART_CPU_ASAN
  __sanitizer_finish_switch_fiber(self.fake_stack, &from->stack, &from->stack_size);
#endif
}

void switch_to(Fiber& from, Fiber& to) noexcept {
#if KDART_CPU_ASAN
  __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_size);
#endif
  arrive(from, context::jump_fcontext(to.state, &from));
}

void switch_for_good(Fiber& from, Fiber& to) noexcept {
#if KDART_CPU_ASAN
  __sanitizer_start_switch_fiber(nullptr, to.stack, to.stack_size);  // null: this fiber's fake stack is done with
#endif
  context::jump_fcontext(to.state, &from);
  __builtin_unreachable();
}

void barrier(kdart_cpu_thread* self) {
  auto& fiber = *static_cast<Fiber*>(self->engine);
  if (fiber.next != &fiber) switch_to(fiber, *fiber.next);
}

// The first function on every fiber's stack. It never returns, so ASan must not mark its frame: nobody would unmark it.
__attribute__((no_sanitize("address"))) void enter_fiber(context::transfer_t transfer) noexcept {
  Fiber& fiber = *static_cast<Fiber*>(transfer.data)->next;  // a switch always goes to the next of where it comes from
  arrive(fiber, transfer);
  switch_for_good(fiber, fiber.engine->run_thread(fiber));
}

Fiber& FiberEngine::run_thread(Fiber& fiber) noexcept {
  try {
    launch_->kernel->thread_entry()(launch_->arguments.data(), &fiber.thread);
  } catch (...) {
    if (!error_) error_ = kernel_fault(*launch_, block_);
  }
  fiber.previous->next = fiber.next;
  fiber.next->previous = fiber.previous;
  if (fiber.next == &fiber) fiber.next = &main_;
  return *fiber.next;
}

void FiberEngine::reset_ring(std::uint32_t threads, void* shared) {
  stacks_.commit(threads);
  if (fibers_.size() < threads) fibers_.resize(threads);
  for (std::uint32_t i = 0; i < threads; ++i) {
    Fiber& fiber = fibers_[i];
    describe_block(fiber.thread, *launch_, block_, shared);
    set_thread_index(fiber.thread, i);
    fiber.thread.barrier = barrier;
    fiber.thread.engine = &fiber;
    fiber.engine = this;
    fiber.next = &fibers_[i + 1 == threads ? 0 : i + 1];
    fiber.previous = &fibers_[i == 0 ? threads - 1 : i - 1];
    fiber.fake_stack = nullptr;
    fiber.stack = stacks_.bottom(i);
    fiber.stack_size = static_cast<std::size_t>(stacks_.top(i) - stacks_.bottom(i));
    fiber.state = context::make_fcontext(stacks_.top(i), fiber.stack_size, enter_fiber);
  }
}

void FiberEngine::run_block(const LaunchOperation& launch, BlockIndex block, void* shared) {
  launch_ = &launch;
  block_ = block;
  reset_ring(static_cast<std::uint32_t>(launch.block.threads()), shared);
  main_.next = fibers_.data();
  switch_to(main_, *main_.next);
  if (error_) throw Error(*std::exchange(error_, std::nullopt));
}

}  // namespace

std::unique_ptr<BlockEngine> make_fiber_engine() {
  try {
    return std::make_unique<FiberEngine>();
  } catch (...) {
    throw current_error("setting up fibers");
  }
}

}  // namespace kdart::cpu
