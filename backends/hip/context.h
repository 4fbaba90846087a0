// The device that calls are for, and its being current for the time of a call. HIP has one context for each device, and each
// thread a current device.
#pragma once

#include <memory>
#include <utility>

#include "backends/hip/api.h"
#include "backends/hip/errors.h"
#include "backends/hip/loader.h"

namespace kdart::hip {

class Context {
 public:
  Context(std::shared_ptr<const Library> library, int device) noexcept
      : library_(std::move(library)), device_(device) {}

  [[nodiscard]] const Functions& driver() const noexcept { return library_->functions(); }
  [[nodiscard]] int device() const noexcept { return device_; }

 private:
  std::shared_ptr<const Library> library_;
  int device_;
};

// Makes a device current on the calling thread; the one that was current before is so again at the end. Sets nothing when it
// is current already.
class Current {
 public:
  // Throws what check_hip throws.
  explicit Current(const Context& context) : hip_(&context.driver()) {
    check_hip(hip_->get_device(&before_), "asking for the current device");
    if (before_ == context.device()) return;
    check_hip(hip_->set_device(context.device()), "making the device current");
    changed_ = true;
  }
  ~Current() {
    if (changed_) static_cast<void>(hip_->set_device(before_));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Functions* hip_;
  int before_ = 0;
  bool changed_ = false;
};

// The same for letting go of things, which must not end half way: a call that fails is made once more, and where that fails
// too, the runtime has shut down, and there is no device to be current.
class CurrentToRelease {
 public:
  explicit CurrentToRelease(const Context& context) noexcept : hip_(&context.driver()) {
    const bool known = hip_->get_device(&before_) == hipSuccess || hip_->get_device(&before_) == hipSuccess;
    if (known && before_ == context.device()) return;
    const bool changed = succeeded(hip_->set_device(context.device())) || succeeded(hip_->set_device(context.device()));
    changed_ = known && changed;
  }
  ~CurrentToRelease() {
    if (changed_) static_cast<void>(hip_->set_device(before_));
  }
  CurrentToRelease(const CurrentToRelease&) = delete;
  CurrentToRelease& operator=(const CurrentToRelease&) = delete;

 private:
  const Functions* hip_;
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace kdart::hip
