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
#include "tests/support/fake_driver.h"

namespace kdart::test {

// One of the drivers, as new: whatever a test before it left there is gone. One at a time, and no device of an earlier one
// may be alive.
class FakeCuda final : public FakeDriver {
 public:
  enum class Driver { full, plain };  // plain: of CUDA 11.4

  explicit FakeCuda(Driver driver = Driver::full);

  [[nodiscard]] static const char* path(Driver driver) noexcept;
  // Opens this driver, and no library for GEMM.
  [[nodiscard]] OpenOptions options() const;
  [[nodiscard]] std::shared_ptr<GpuBackend> open(OpenOptions options) const;
  [[nodiscard]] std::shared_ptr<GpuBackend> open() const override { return open(options()); }

  const fake_cuda::Control* operator->() const noexcept { return control_; }
  // The driver's own entry points: another user's way in.
  [[nodiscard]] const cuda::Functions& cu() const noexcept { return functions_; }

  [[nodiscard]] std::vector<std::string> live() const override;
  [[nodiscard]] std::vector<std::string> violations() const override;
  [[nodiscard]] std::vector<fake_cuda::Launch> launches() const override;
  [[nodiscard]] std::uint64_t calls(const char* symbol = "") const { return control_->calls(symbol); }
  // The symbols of the calls since the `first`.
  [[nodiscard]] std::vector<std::string> calls_since(std::uint64_t first) const;

  [[nodiscard]] std::shared_ptr<const KernelSet> set() const override;
  [[nodiscard]] bool takes_launch_attributes() const override { return true; }
  [[nodiscard]] std::uint32_t much_shared_memory() const override { return 100U << 10; }
  [[nodiscard]] Stream adopt_default_stream(GpuBackend& gpu) const override;
  [[nodiscard]] Stream adopt_own_stream(GpuBackend& gpu) const override;
  [[nodiscard]] std::uint64_t call_count() const override { return calls(); }
  [[nodiscard]] const char* call_at(std::uint64_t index) const override { return control_->call(index); }
  void fail_nth(std::uint64_t nth, int result, bool lasting) const override {
    control_->fail("", nth, result, lasting);
  }
  void fail_no_more() const override { control_->fail_no_more(); }
  void shut_down() const override { control_->answer_all(cuda::CUDA_ERROR_DEINITIALIZED); }
  [[nodiscard]] Place place() const override { return {control_->current(), control_->depth()}; }
  void go_back_to(Place place) const override {
    while (control_->depth() > place.depth) control_->pop();
  }

 private:
  const char* path_;
  const fake_cuda::Control* control_ = nullptr;
  cuda::Functions functions_;
};

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

}  // namespace kdart::test
