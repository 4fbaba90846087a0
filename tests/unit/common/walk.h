// One walk through the whole interface of a device, step by step: for what must hold after every call.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kdart/backend.h"
#include "tests/support/fake_driver.h"

namespace kdart::test {

// Made anew for each walk. The steps need those before them. What a walk made is released by its last steps; when it ended
// early, by the device's end.
class Walk {
 public:
  struct Step {
    const char* name;
    std::function<void()> run;
  };

  explicit Walk(const FakeDriver& fake) : fake_(fake) {}

  // "open" first, "close" last.
  [[nodiscard]] std::vector<Step> steps();
  // The device, from the first step on.
  [[nodiscard]] const std::shared_ptr<GpuBackend>& gpu() const noexcept { return gpu_; }
  // Lets go of all of it, in the order in which a program would.
  void drop() noexcept;

 private:
  void add_memory(std::vector<Step>& steps);
  void add_streams(std::vector<Step>& steps);
  void add_kernels(std::vector<Step>& steps);
  void add_graphs(std::vector<Step>& steps);
  void add_sharing(std::vector<Step>& steps);
  void add_releases(std::vector<Step>& steps);

  const FakeDriver& fake_;
  std::shared_ptr<GpuBackend> gpu_;
  std::shared_ptr<LoadedSet> set_;
  DevicePtr x_, y_, z_;
  void* pinned_ = nullptr;
  Stream stream_, other_, adopted_;
  Event event_, later_;
  Graph graph_;
  std::vector<std::byte> in_, out_;
};

// What a device that works does: memory, a copy there and back, a kernel. Throws what it throws; checks the bytes and
// that the launch ran.
void canary(const FakeDriver& fake, const std::shared_ptr<GpuBackend>& gpu);

}  // namespace kdart::test
