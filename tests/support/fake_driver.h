// A fake driver in a test's hands, whichever vendor's: what the tests that hold for every one of them need.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "kdart/kernel_set.h"
#include "tests/fake_cuda/control.h"

namespace kdart::test {

class FakeDriver {
 public:
  FakeDriver() = default;
  virtual ~FakeDriver() = default;
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  // Its first device.
  [[nodiscard]] virtual std::shared_ptr<GpuBackend> open() const = 0;
  // sample_contract()'s kernels as an image that it takes.
  [[nodiscard]] virtual std::shared_ptr<const KernelSet> set() const = 0;
  [[nodiscard]] virtual bool takes_launch_attributes() const = 0;
  // Dynamic shared memory that its device has, as much as the driver wants to be asked for first where there is such a rule.
  [[nodiscard]] virtual std::uint32_t much_shared_memory() const = 0;

  // A handle for the default stream; for a stream that the test makes, and ends no more.
  [[nodiscard]] virtual Stream adopt_default_stream(GpuBackend& gpu) const = 0;
  [[nodiscard]] virtual Stream adopt_own_stream(GpuBackend& gpu) const = 0;

  // Calls of the driver's entry points, and the symbol of each; null past the last.
  [[nodiscard]] virtual std::uint64_t call_count() const = 0;
  [[nodiscard]] virtual const char* call_at(std::uint64_t index) const = 0;
  // The nth call from now answers `result` and does nothing; `lasting`: so do later ones, as after a fault.
  virtual void fail_nth(std::uint64_t nth, int result, bool lasting) const = 0;
  virtual void fail_no_more() const = 0;
  // Every call answers that the driver has shut down.
  virtual void shut_down() const = 0;

  [[nodiscard]] virtual std::vector<fake_cuda::Launch> launches() const = 0;
  // One line for each object alive, and for each call that a driver would not forgive.
  [[nodiscard]] virtual std::vector<std::string> live() const = 0;
  [[nodiscard]] virtual std::vector<std::string> violations() const = 0;

  // What is current on the calling thread, and how much lies below it.
  struct Place {
    const void* current = nullptr;
    std::size_t depth = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  [[nodiscard]] virtual Place place() const = 0;
  virtual void go_back_to(Place place) const = 0;
};

// What a list has to be for a test to pass; a failure shows what stands there.
[[nodiscard]] inline std::vector<std::string> nothing() {
  return {};
}

// Ends a test: nothing is alive in the driver and nothing was done that it would not forgive.
#define KDART_CHECK_CLEAN(fake)                         \
  CHECK((fake).violations() == kdart::test::nothing()); \
  CHECK((fake).live() == kdart::test::nothing())

}  // namespace kdart::test
