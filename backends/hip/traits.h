// HIP's module API as backends/common takes it: its names and numbers, and what it does in its own way.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/argument.h"
#include "backends/common/kernels.h"
#include "backends/hip/api.h"
#include "backends/hip/context.h"
#include "backends/hip/errors.h"
#include "backends/hip/facts.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"

namespace kdart::hip {

struct HipApi {
  using Functions = hip::Functions;
  using Result = hipError_t;
  using Address = hipDeviceptr_t;
  using Word = int;  // of a fill
  using Stream = hipStream_t;
  using Event = hipEvent_t;
  using Module = hipModule_t;
  using Function = hipFunction_t;
  using Graph = hipGraph_t;
  using GraphExec = hipGraphExec_t;
  using Pool = hipMemPool_t;
  using Snapshot = HipSnapshot;
  using Context = hip::Context;
  using Current = hip::Current;
  using CurrentToRelease = hip::CurrentToRelease;

  static constexpr Result success = hipSuccess;
  static constexpr Result out_of_memory = hipErrorOutOfMemory;
  static constexpr Result not_ready = hipErrorNotReady;
  static constexpr Result not_found = hipErrorNotFound;
  static constexpr Result capture_implicit = hipErrorStreamCaptureImplicit;

  static constexpr int pool_release_threshold = hipMemPoolAttrReleaseThreshold;
  static constexpr int pool_reserved = hipMemPoolAttrReservedMemCurrent;
  static constexpr int pool_used = hipMemPoolAttrUsedMemCurrent;
  static constexpr int function_max_threads = HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  static constexpr int function_static_shared = HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
  static constexpr int capture_none = hipStreamCaptureStatusNone;
  static constexpr int capture_relaxed = hipStreamCaptureModeRelaxed;
  static constexpr unsigned int stream_non_blocking = hipStreamNonBlocking;
  static constexpr unsigned int event_default = hipEventDefault;
  static constexpr unsigned int host_portable = hipHostMallocPortable;
  // A launch may have all of a device's shared memory as it is.
  static constexpr std::uint32_t shared_without_optin = std::numeric_limits<std::uint32_t>::max();

  [[nodiscard]] static bool succeeded(Result result) noexcept { return hip::succeeded(result); }
  [[nodiscard]] static std::string result_name(Result result) { return hip::result_name(result); }
  [[nodiscard]] static ErrorCode code_of(Result result) noexcept { return hip::code_of(result); }
  [[noreturn]] static void fail(Result result, std::string_view doing) { fail_hip(result, doing); }
  static void check(Result result, std::string_view doing) { check_hip(result, doing); }

  [[nodiscard]] static Address address(DevicePtr memory) noexcept { return reinterpret_cast<void*>(memory.address()); }
  [[nodiscard]] static DevicePtr device_ptr(Address memory) noexcept {
    return DevicePtr(reinterpret_cast<std::uintptr_t>(memory));
  }

  [[nodiscard]] static hipMemPoolProps pool_properties(const Context& context) noexcept;
  // Runtimes differ in whether a copy from memory that kdart did not page-lock has read it when the call returns.
  [[nodiscard]] static bool reads_late(const Functions&, const Snapshot&, const void*, std::uint64_t) noexcept {
    return true;
  }
  [[nodiscard]] static Result copy_2d(const Functions& driver, Address dst, std::uint64_t dst_pitch, Address src,
                                      std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height,
                                      Stream stream) {
    return driver.memcpy_2d_async(dst, dst_pitch, src, src_pitch, width, height, hipMemcpyDeviceToDevice, stream);
  }
  [[nodiscard]] static Result instantiate(const Functions& driver, GraphExec* graph, Graph recorded) {
    return driver.graph_instantiate(graph, recorded, nullptr, nullptr, 0);
  }
  // A code object, bare or in a bundle. Throws what DriverModule's constructor says.
  [[nodiscard]] static common::LoadedImage<HipApi> load(const Context& context, const Snapshot& device,
                                                        const ManifestImage& image, std::span<const std::byte> bytes);
  [[nodiscard]] static Result allow_shared(const Functions&, Function, std::uint32_t) noexcept { return hipSuccess; }
  // The image has told them all.
  [[nodiscard]] static std::vector<common::KernelArgument> arguments(const Functions&, Function, const std::string&) {
    return {};
  }
  [[nodiscard]] static Result launch(const Functions& driver, Function function, const LaunchRecord& record,
                                     Stream stream);
};

}  // namespace kdart::hip
