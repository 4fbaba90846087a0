// The CUDA driver API as backends/common takes it: its names and numbers, and what it does in its own way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/common/argument.h"
#include "backends/common/kernels.h"
#include "backends/cuda/api.h"
#include "backends/cuda/context.h"
#include "backends/cuda/errors.h"
#include "backends/cuda/facts.h"
#include "kdart/kernel_set.h"
#include "kdart/launch.h"

namespace kdart::cuda {

struct CudaApi {
  using Functions = cuda::Functions;
  using Result = CUresult;
  using Address = CUdeviceptr;
  using Word = unsigned int;  // of a fill
  using Stream = CUstream;
  using Event = CUevent;
  using Module = CUmodule;
  using Function = CUfunction;
  using Graph = CUgraph;
  using GraphExec = CUgraphExec;
  using Pool = CUmemoryPool;
  using Snapshot = CudaSnapshot;
  using Context = cuda::Context;
  using Current = cuda::Current;
  using CurrentToRelease = cuda::CurrentToRelease;

  static constexpr Result success = CUDA_SUCCESS;
  static constexpr Result out_of_memory = CUDA_ERROR_OUT_OF_MEMORY;
  static constexpr Result not_ready = CUDA_ERROR_NOT_READY;
  static constexpr Result not_found = CUDA_ERROR_NOT_FOUND;
  static constexpr Result capture_implicit = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;

  static constexpr int pool_release_threshold = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
  static constexpr int pool_reserved = CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT;
  static constexpr int pool_used = CU_MEMPOOL_ATTR_USED_MEM_CURRENT;
  static constexpr int function_max_threads = CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
  static constexpr int function_static_shared = CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
  static constexpr int capture_none = CU_STREAM_CAPTURE_STATUS_NONE;
  static constexpr int capture_relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  static constexpr unsigned int stream_non_blocking = CU_STREAM_NON_BLOCKING;
  static constexpr unsigned int event_default = CU_EVENT_DEFAULT;
  static constexpr unsigned int host_portable = CU_MEMHOSTALLOC_PORTABLE;
  // What a kernel may have in dynamic shared memory without asking, its static share counted in.
  static constexpr std::uint32_t shared_without_optin = 48U << 10;

  [[nodiscard]] static bool succeeded(Result result) noexcept { return result == CUDA_SUCCESS; }
  [[nodiscard]] static std::string result_name(Result result) { return cuda::result_name(result); }
  [[nodiscard]] static ErrorCode code_of(Result result) noexcept { return cuda::code_of(result); }
  [[noreturn]] static void fail(Result result, std::string_view doing) { fail_cuda(result, doing); }
  static void check(Result result, std::string_view doing) { check_cuda(result, doing); }

  [[nodiscard]] static Address address(DevicePtr memory) noexcept { return memory.address(); }
  [[nodiscard]] static DevicePtr device_ptr(Address memory) noexcept { return DevicePtr(memory); }

  [[nodiscard]] static CUmemPoolProps pool_properties(const Context& context) noexcept;
  // Whether the driver itself reads this host memory after a copy call has returned: memory that someone else has
  // page-locked with CUDA, or any memory where the GPU walks the host's page tables.
  [[nodiscard]] static bool reads_late(const Functions& driver, const Snapshot& device, const void* memory,
                                       std::uint64_t bytes);
  [[nodiscard]] static Result copy_2d(const Functions& driver, Address dst, std::uint64_t dst_pitch, Address src,
                                      std::uint64_t src_pitch, std::uint64_t width, std::uint64_t height,
                                      Stream stream);
  [[nodiscard]] static Result instantiate(const Functions& driver, GraphExec* graph, Graph recorded) {
    return driver.graph_instantiate(graph, recorded, 0);
  }
  // A cubin or PTX. Throws what DriverModule's constructor says.
  [[nodiscard]] static common::LoadedImage<CudaApi> load(const Context& context, const Snapshot& device,
                                                         const ManifestImage& image, std::span<const std::byte> bytes);
  [[nodiscard]] static Result allow_shared(const Functions& driver, Function function, std::uint32_t dynamic_bytes) {
    return driver.func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     static_cast<int>(dynamic_bytes));
  }
  // As the driver has them; empty where it does not say.
  [[nodiscard]] static std::vector<common::KernelArgument> arguments(const Functions& driver, Function function,
                                                                     const std::string& kernel);
  [[nodiscard]] static Result launch(const Functions& driver, Function function, const LaunchRecord& record,
                                     Stream stream);
};

}  // namespace kdart::cuda
