// One kernel launch as a value, and the sentence that builds it.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>

#include "kdart/contract.h"
#include "kdart/export.h"
#include "kdart/types.h"

namespace kdart {

class GpuBackend;

// Optional launch attributes. A device that does not list the feature refuses the launch (unsupported): "cluster_launch"
// for a cluster other than 1 x 1 x 1, which must divide the grid, and "dependent_launch".
struct LaunchAttributes {
  Dim3 cluster{1, 1, 1};
  bool dependent = false;  // may start before the previous launch of its stream has ended
};

// Everything a backend is told about a launch. Allocates nothing.
struct LaunchRecord {
  struct Slot {
    ArgKind kind;
    std::uint16_t offset, size;
  };
  KernelHandle kernel;
  Dim3 grid, block;
  std::uint32_t shared_bytes = 0;  // dynamic
  LaunchAttributes attributes;
  std::uint16_t argument_bytes = 0;
  std::uint8_t argument_count = 0;
  bool overflow = false;  // more than 32 arguments or 256 bytes were given; launch() refuses
  std::array<Slot, max_kernel_arguments> slots{};
  alignas(16) std::array<std::byte, max_argument_bytes> arguments{};
};

// A struct generated from a contract: its fields are the argument block, it knows its kernel's contract.
template <class T>
concept KernelArguments = std::is_trivially_copyable_v<T> && requires {
  { T::contract() } -> std::same_as<const ContractKernel&>;
};

// Builds a LaunchRecord and hands it to the backend:
//
//   KernelLaunch(gpu, kernel).args(GateArgs{.f = f, ..}).launch(stream);
//
// args(struct) also takes grid, block and dynamic shared memory from the contract's formulas; grid(), block() and
// shared_mem() called after it override them. Nothing is checked before launch(), which throws what
// GpuBackend::launch throws. A temporary: the backend must outlive it, and no two threads share one.
class KernelLaunch {
 public:
  KernelLaunch(GpuBackend& backend, KernelHandle kernel) noexcept : backend_(&backend) { record_.kernel = kernel; }
  KernelLaunch(const std::shared_ptr<GpuBackend>& backend, KernelHandle kernel) noexcept
      : KernelLaunch(*backend, kernel) {}

  KernelLaunch& grid(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) noexcept {
    record_.grid = {x, y, z};
    return *this;
  }
  KernelLaunch& block(std::uint32_t x, std::uint32_t y = 1, std::uint32_t z = 1) noexcept {
    record_.block = {x, y, z};
    return *this;
  }
  KernelLaunch& shared_mem(std::uint32_t bytes) noexcept {
    record_.shared_bytes = bytes;
    return *this;
  }
  KernelLaunch& attributes(const LaunchAttributes& attributes) noexcept {
    record_.attributes = attributes;
    return *this;
  }

  // All arguments at once, replacing any given before.
  template <KernelArguments Args>
  KernelLaunch& args(const Args& args) noexcept {
    const ContractKernel& contract = Args::contract();
    static_assert(sizeof(Args) <= max_argument_bytes);
    std::memcpy(record_.arguments.data(), &args, contract.argument_bytes);
    record_.argument_bytes = contract.argument_bytes;
    record_.argument_count = static_cast<std::uint8_t>(contract.args.size());
    record_.overflow = false;
    for (std::size_t i = 0; i < contract.args.size(); ++i) {
      record_.slots[i] = {contract.args[i].kind, contract.args[i].offset, contract.args[i].size};
    }
    const LaunchShape shape = contract.shape(record_.arguments.data());
    record_.grid = shape.grid;
    record_.block = shape.block;
    record_.shared_bytes = shape.shared_bytes;
    return *this;
  }

  // One argument more, at its natural alignment. Exactly these five types: an implicit conversion would change the
  // argument's size without a word.
  KernelLaunch& arg(DevicePtr x) noexcept { return push(ArgKind::ptr, x.address()); }
  KernelLaunch& arg(std::uint32_t x) noexcept { return push(ArgKind::u32, x); }
  KernelLaunch& arg(std::int32_t x) noexcept { return push(ArgKind::i32, x); }
  KernelLaunch& arg(std::uint64_t x) noexcept { return push(ArgKind::u64, x); }
  KernelLaunch& arg(float x) noexcept { return push(ArgKind::f32, x); }
  template <class T>
  KernelLaunch& arg(T) = delete;
  // A descriptor of opaque bytes (a tensor map, say). `alignment` is a power of two.
  KernelLaunch& bytes(std::span<const std::byte> data, std::uint32_t alignment) noexcept {
    return push_bytes(ArgKind::bytes, data.data(), data.size(), alignment);
  }

  [[nodiscard]] const LaunchRecord& record() const noexcept { return record_; }
  KDART_API void launch(Stream stream) const;

 private:
  template <class T>
  KernelLaunch& push(ArgKind kind, T x) noexcept {
    return push_bytes(kind, &x, sizeof x, alignof(T));
  }
  KDART_API KernelLaunch& push_bytes(ArgKind kind, const void* data, std::size_t size, std::size_t alignment) noexcept;

  GpuBackend* backend_;
  LaunchRecord record_;
};

}  // namespace kdart
