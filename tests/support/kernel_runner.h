// Runs one kernel alone through the real interface: a device, its kernel set, and memory that notices what it should
// not: every buffer lies between guards at the smallest alignment that the contract allows, and inputs must stay as they
// are. Failures of these go to Catch2 as failed requirements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kdart/backend.h"
#include "kdart/bf16.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"
#include "kdart/owned.h"

namespace kdart::test {

// ThreadSanitizer follows threads and not fibers; under it every block runs on threads.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool under_tsan = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool under_tsan = true;
#else
inline constexpr bool under_tsan = false;
#endif
#else
inline constexpr bool under_tsan = false;
#endif

// What the device of a test is opened with.
[[nodiscard]] OpenOptions device_options();

// Device memory with a guard before and after. What nobody wrote yet holds 0xFF bytes: a NaN in bf16 and in f32.
class GuardedMemory {
 public:
  enum class Use : std::uint8_t { input, output };  // an input must not change

  // Holds `contents` at an address that is a multiple of `alignment` and not of 2 * alignment.
  GuardedMemory(const std::shared_ptr<GpuBackend>& backend, std::span<const std::byte> contents,
                std::uint32_t alignment, Use use);

  [[nodiscard]] DevicePtr data() const { return memory_.get().offset(offset_); }
  [[nodiscard]] std::size_t size() const { return contents_.size(); }
  [[nodiscard]] std::vector<std::byte> read() const;
  // What should not have changed and did, as one sentence; "" when all is well.
  [[nodiscard]] std::string damage() const;

 private:
  std::shared_ptr<GpuBackend> backend_;
  std::vector<std::byte> contents_;  // as uploaded
  Use use_;
  std::size_t offset_;
  Buffer memory_;
};

// A GuardedMemory of T. Copies share the memory.
template <class T>
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::shared_ptr<GuardedMemory> memory) : memory_(std::move(memory)) {}

  [[nodiscard]] DevicePtr get() const { return memory_ == nullptr ? DevicePtr{} : memory_->data(); }
  [[nodiscard]] std::size_t size() const { return memory_ == nullptr ? 0 : memory_->size() / sizeof(T); }
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> result(size());
    if (size() > 0) std::memcpy(result.data(), memory_->read().data(), size() * sizeof(T));
    return result;
  }

 private:
  std::shared_ptr<GuardedMemory> memory_;
};

class KernelRunner {
 public:
  // Opens test_device() and loads `set`, or the set that is built in.
  explicit KernelRunner(const OpenOptions& options = device_options(), std::shared_ptr<const KernelSet> set = nullptr);
  // The same on a device that is open.
  explicit KernelRunner(std::shared_ptr<GpuBackend> backend, std::shared_ptr<const KernelSet> set = nullptr);

  [[nodiscard]] const std::shared_ptr<GpuBackend>& backend() const { return backend_; }
  [[nodiscard]] const std::shared_ptr<LoadedSet>& set() const { return set_; }
  [[nodiscard]] Stream stream() const { return stream_.get(); }
  [[nodiscard]] bool has(std::string_view kernel) const { return static_cast<bool>(set_->find(kernel)); }

  // Memory that is checked after every run for as long as an array refers to it.
  template <class T>
  [[nodiscard]] DeviceArray<T> input(std::span<const T> values, std::uint32_t alignment = sizeof(T)) {
    return DeviceArray<T>(add(std::as_bytes(values), alignment, GuardedMemory::Use::input));
  }
  template <class T>
  [[nodiscard]] DeviceArray<T> input(const std::vector<T>& values, std::uint32_t alignment = sizeof(T)) {
    return input(std::span<const T>(values), alignment);
  }
  template <class T>
  [[nodiscard]] DeviceArray<T> inout(const std::vector<T>& values) {
    return DeviceArray<T>(add(std::as_bytes(std::span<const T>(values)), sizeof(T), GuardedMemory::Use::output));
  }
  template <class T>
  [[nodiscard]] DeviceArray<T> output(std::size_t count) {
    const std::vector<std::byte> unwritten(count * sizeof(T), std::byte{0xFF});
    return DeviceArray<T>(add(unwritten, sizeof(T), GuardedMemory::Use::output));
  }

  // Every launch from here on gets at most this grid: what the blocks that are left out would do is then done by the
  // loops inside the kernel.
  void limit_grid(Dim3 limit) { grid_limit_ = limit; }

  // Submits; verify() looks at the result.
  template <KernelArguments Args>
  void launch(const Args& args) {
    submit(KernelLaunch(backend_, set_->get(Args::contract().name)).args(args), Args::contract());
  }
  // Waits, then requires all guards and inputs to be untouched.
  void verify();
  template <KernelArguments Args>
  void run(const Args& args) {
    launch(args);
    verify();
  }

 private:
  std::shared_ptr<GuardedMemory> add(std::span<const std::byte> contents, std::uint32_t alignment,
                                     GuardedMemory::Use use);
  void submit(KernelLaunch launch, const ContractKernel& contract);
  // Requires what the contract says of each address that begins one of our buffers: alignment, and no more than that;
  // and that the buffer holds the extent.
  void check_addresses(const LaunchRecord& record, const ContractKernel& contract);

  std::shared_ptr<GpuBackend> backend_;
  std::shared_ptr<LoadedSet> set_;
  OwnedStream stream_;
  Dim3 grid_limit_{0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF};
  std::vector<std::weak_ptr<GuardedMemory>> memory_;
};

// --- judging --------------------------------------------------------------------------------------------------------

// A kernel's output against the float64 truth with the bounds of tools/reference/judge.h: fails the test with one line
// that says how far off it is. `inputs` are the kernel's f32 inputs.
void expect_f32(std::string_view what, std::span<const float> x, std::span<const double> truth,
                std::initializer_list<std::span<const float>> inputs);
void expect_bf16(std::string_view what, std::span<const bf16> x, std::span<const double> truth);

// Equal length, not empty, equal bytes.
template <class T>
[[nodiscard]] bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return !x.empty() && x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

// True when elements [first, first + count) of an output still hold what DeviceArray output() put there.
template <class T>
[[nodiscard]] bool unwritten(const std::vector<T>& x, std::size_t first, std::size_t count) {
  const auto bytes = std::as_bytes(std::span<const T>(x).subspan(first, count));
  for (const std::byte byte : bytes) {
    if (byte != std::byte{0xFF}) return false;
  }
  return true;
}

// Rows of `width` laid `stride` apart; the gaps, and nothing after the last row, hold `gap`.
template <class T>
[[nodiscard]] std::vector<T> strided(std::span<const T> packed, std::size_t width, std::size_t stride, T gap) {
  const std::size_t rows = packed.size() / width;
  std::vector<T> result(rows == 0 ? 0 : (rows - 1) * stride + width, gap);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < width; ++c) result[r * stride + c] = packed[r * width + c];
  }
  return result;
}

// The opposite.
template <class T>
[[nodiscard]] std::vector<T> packed(const std::vector<T>& strided, std::size_t rows, std::size_t width,
                                    std::size_t stride) {
  std::vector<T> result(rows * width);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < width; ++c) result[r * width + c] = strided[r * stride + c];
  }
  return result;
}

template <class T>
[[nodiscard]] bool gaps_unwritten(const std::vector<T>& strided, std::size_t rows, std::size_t width,
                                  std::size_t stride) {
  for (std::size_t r = 0; r + 1 < rows; ++r) {
    if (!unwritten(strided, r * stride + width, stride - width)) return false;
  }
  return true;
}

}  // namespace kdart::test
