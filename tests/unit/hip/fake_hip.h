// The stand-in for HIP's runtime (tests/hip_on_cuda/control.h) on the fake CUDA driver, in a test's hands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/hip/api.h"
#include "tests/hip_on_cuda/control.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/fake_driver.h"
#include "tests/unit/hip/made_code_object.h"

namespace kdart::test {

// As new, and with a new driver below it. One at a time, and no device of an earlier one may be alive.
class FakeHip final : public FakeDriver {
 public:
  enum class Runtime { full, rocm5 };  // rocm5: of ROCm 5.0
  static constexpr const char* gfx90a = "gfx90a:sramecc+:xnack-";

  explicit FakeHip(Runtime runtime = Runtime::full, const char* target = gfx90a);
  ~FakeHip() override;

  // Opens this runtime, and no library for GEMM.
  [[nodiscard]] OpenOptions options() const;
  [[nodiscard]] std::shared_ptr<GpuBackend> open(std::uint32_t device) const;
  [[nodiscard]] std::shared_ptr<GpuBackend> open() const override { return open(0); }
  [[nodiscard]] std::shared_ptr<const KernelSet> set() const override { return set_of(code_object()); }
  // sample_contract()'s kernels, for gfx90a:sramecc+:xnack-; and a set of such an image's bytes, for gfx90a as its manifest says.
  [[nodiscard]] static Bytes code_object();
  [[nodiscard]] static std::shared_ptr<const KernelSet> set_of(Bytes bytes);

  const hip_on_cuda::Control* operator->() const noexcept { return control_; }
  // The driver below.
  [[nodiscard]] const FakeCuda& cuda() const noexcept { return cuda_; }
  [[nodiscard]] std::uint64_t calls(const char* symbol) const { return control_->calls(symbol); }

  [[nodiscard]] bool takes_launch_attributes() const override { return false; }
  [[nodiscard]] std::uint32_t much_shared_memory() const override { return 64U << 10; }
  [[nodiscard]] Stream adopt_default_stream(GpuBackend& gpu) const override;
  [[nodiscard]] Stream adopt_own_stream(GpuBackend& gpu) const override;
  [[nodiscard]] std::uint64_t call_count() const override { return control_->calls(""); }
  [[nodiscard]] const char* call_at(std::uint64_t index) const override { return control_->call(index); }
  void fail_nth(std::uint64_t nth, int result, bool lasting) const override {
    control_->fail("", nth, result, lasting);
  }
  void fail_no_more() const override { control_->fail_no_more(); }
  void shut_down() const override { cuda_.shut_down(); }
  [[nodiscard]] std::vector<fake_cuda::Launch> launches() const override { return cuda_.launches(); }
  [[nodiscard]] std::vector<std::string> violations() const override { return cuda_.violations(); }
  // The contexts that the stand-in keeps count as HIP's own, and are let go of.
  [[nodiscard]] std::vector<std::string> live() const override;
  // The thread's device, and CUDA's contexts, of which the stand-in leaves none behind.
  [[nodiscard]] Place place() const override;
  void go_back_to(Place place) const override;

 private:
  FakeCuda cuda_;
  const char* path_;
  std::string image_;  // PTX with the kernels' names
  const hip_on_cuda::Control* control_ = nullptr;
};

}  // namespace kdart::test
