// The fake CUDA driver (tests/fake_cuda/control.h) in a test's hands.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/api.h"
#include "kdart/backend.h"
#include "kdart/kernel_set.h"
#include "tests/fake_cuda/control.h"

namespace kdart::test {

// One of the drivers, as new: whatever a test before it left there is gone. One at a time, and no device of an earlier one
// may be alive.
class FakeCuda {
 public:
  enum class Driver { full, plain };  // plain: of CUDA 11.4

  explicit FakeCuda(Driver driver = Driver::full);
  FakeCuda(const FakeCuda&) = delete;
  FakeCuda& operator=(const FakeCuda&) = delete;

  [[nodiscard]] static const char* path(Driver driver) noexcept;
  // Opens this driver, and no library for GEMM.
  [[nodiscard]] OpenOptions options() const;
  [[nodiscard]] std::shared_ptr<GpuBackend> open(OpenOptions options) const;
  [[nodiscard]] std::shared_ptr<GpuBackend> open() const { return open(options()); }

  const fake_cuda::Control* operator->() const noexcept { return control_; }
  // The driver's own entry points: another user's way in.
  [[nodiscard]] const cuda::Functions& cu() const noexcept { return functions_; }

  [[nodiscard]] std::vector<std::string> live() const;
  [[nodiscard]] std::vector<std::string> violations() const;
  [[nodiscard]] std::vector<fake_cuda::Launch> launches() const;
  [[nodiscard]] std::uint64_t calls(const char* symbol = "") const { return control_->calls(symbol); }
  // The symbols of the calls since the `first`.
  [[nodiscard]] std::vector<std::string> calls_since(std::uint64_t first) const;

 private:
  const char* path_;
  const fake_cuda::Control* control_ = nullptr;
  cuda::Functions functions_;
};

// Ends a test: nothing is alive in the driver and nothing was done that it would not forgive.
#define KDART_CHECK_CLEAN(fake)                             \
  CHECK((fake).violations() == std::vector<std::string>()); \
  CHECK((fake).live() == std::vector<std::string>())

// Runs `body` and checks that the calling thread's current context and how many lie below it are as before.
template <class Body>
decltype(auto) unmoved(const FakeCuda& fake, const Body& body) {
  struct Before {
    const FakeCuda& fake;
    void* current;
    std::size_t depth;
    ~Before() {
      CHECK(fake->current() == current);
      CHECK(fake->depth() == depth);
    }
  };
  const Before before{fake, fake->current(), fake->depth()};
  return body();
}

// Runs `body` on a thread of its own and throws what it throws.
template <class Body>
void on_another_thread(const Body& body) {
  std::async(std::launch::async, body).get();
}

// sample_contract()'s kernels as PTX, which the fake takes from anyone: "kdart_scale", "kdart_tagged", "kdart_extra".
[[nodiscard]] std::shared_ptr<const KernelSet> fake_cuda_set();
// A launch of `scale`: one block of 64 threads with 16 bytes of dynamic shared memory.
void launch_scale(GpuBackend& gpu, const LoadedSet& set, DevicePtr x, DevicePtr y, Stream stream);

}  // namespace kdart::test
