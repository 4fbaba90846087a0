// The device under test.
#pragma once

#include <memory>
#include <string_view>

#include "kdart/backend.h"
#include "kdart/registry.h"

namespace kdart::test {

// The device that the test program was told to use (--device). Skips the test, with the reason, when the driver or the
// device is not there; but with --require-device for its backend, and for a CPU, that is an error as every other is.
[[nodiscard]] std::shared_ptr<GpuBackend> open_test_device(const OpenOptions& options = {});

// True when a test of this program was skipped for that.
[[nodiscard]] bool has_missed_device();

// True when this program has opened such a device of `backend`.
[[nodiscard]] bool has_opened_device_of(std::string_view backend);

// Whether the device that was opened last may take denormals for 0 ("denormals_may_flush" among its features).
[[nodiscard]] bool denormals_may_flush();

}  // namespace kdart::test
