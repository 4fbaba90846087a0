// The device under test.
#pragma once

#include <memory>
#include <string_view>

#include "kdart/backend.h"
#include "kdart/registry.h"

namespace kdart::test {

// The device that the test program was told to use (--device). A device that is not there is an error, never a skip.
[[nodiscard]] std::shared_ptr<GpuBackend> open_test_device(const OpenOptions& options = {});

// True when this program has opened such a device of `backend`.
[[nodiscard]] bool has_opened_device_of(std::string_view backend);

// Whether the device that was opened last may take denormals for 0 ("denormals_may_flush" among its features).
[[nodiscard]] bool denormals_may_flush();

}  // namespace kdart::test
