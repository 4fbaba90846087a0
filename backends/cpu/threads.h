// Starting the backend's threads.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

namespace kdart::cpu {

// The moment a bounded wait ends; none: never.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;
[[nodiscard]] Deadline deadline_after(std::optional<std::chrono::nanoseconds> timeout) noexcept;

// Starts a thread with the default floating point environment (an application that flushes denormals must not change
// what kernels compute) and with asynchronous signals blocked (they belong to the application's threads). `name` has at
// most 15 characters. Throws Error(out_of_host_memory) when the system has no thread left. `body` must not throw.
[[nodiscard]] std::thread start_thread(const char* name, std::function<void()> body);

}  // namespace kdart::cpu
