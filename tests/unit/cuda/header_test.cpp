// backends/cuda/api.h against the toolkit's own cuda.h, where there is one.
#include <catch2/catch_test_macros.hpp>

#if __has_include(<cuda.h>)

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <regex>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cuda/api.h"

// Each number of api.h.
#define KDART_TEST_NUMBERS(X)                                         \
  X(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)                        \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)                              \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)                              \
  X(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)                              \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)                               \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)                               \
  X(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)                               \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)                  \
  X(CU_DEVICE_ATTRIBUTE_WARP_SIZE)                                    \
  X(CU_DEVICE_ATTRIBUTE_MAX_PITCH)                                    \
  X(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)                         \
  X(CU_DEVICE_ATTRIBUTE_INTEGRATED)                                   \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_MODE)                                 \
  X(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)                                \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)                     \
  X(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)                     \
  X(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)            \
  X(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) \
  X(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)                       \
  X(CU_COMPUTEMODE_PROHIBITED)                                        \
  X(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)                          \
  X(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)                              \
  X(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)                  \
  X(CU_POINTER_ATTRIBUTE_MEMORY_TYPE)                                 \
  X(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)                                \
  X(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)                             \
  X(CU_MEMPOOL_ATTR_USED_MEM_CURRENT)                                 \
  X(CU_MEM_ALLOCATION_TYPE_PINNED)                                    \
  X(CU_MEM_LOCATION_TYPE_DEVICE)                                      \
  X(CU_MEMORYTYPE_DEVICE)                                             \
  X(CU_STREAM_NON_BLOCKING)                                           \
  X(CU_EVENT_DEFAULT)                                                 \
  X(CU_MEMHOSTALLOC_PORTABLE)                                         \
  X(CU_STREAM_CAPTURE_MODE_RELAXED)                                   \
  X(CU_STREAM_CAPTURE_STATUS_NONE)                                    \
  X(CU_JIT_INFO_LOG_BUFFER)                                           \
  X(CU_JIT_ERROR_LOG_BUFFER)                                          \
  X(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)                               \
  X(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)                            \
  X(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)

namespace kdart::test {
namespace {

namespace ours = kdart::cuda;

struct Number {
  std::string name;
  std::int64_t value;
};
const std::vector<Number> our_numbers{
#define KDART_TEST_OURS(name) {#name, static_cast<std::int64_t>(ours::name)},
    KDART_TEST_NUMBERS(KDART_TEST_OURS)
#undef KDART_TEST_OURS
};

// Read before cuda.h makes macros of the names.
const std::vector<const void*> our_launch_marks{ours::CU_LAUNCH_PARAM_END, ours::CU_LAUNCH_PARAM_BUFFER_POINTER,
                                                ours::CU_LAUNCH_PARAM_BUFFER_SIZE};

}  // namespace
}  // namespace kdart::test

// Every version of an entry point under its own name.
#define __CUDA_API_VERSION_INTERNAL 1  // NOLINT: cuda.h's switch
#include <cuda.h>

namespace kdart::test {
namespace {

// Two types that the driver cannot tell apart.
template <class A, class B>
constexpr bool alike() {
  if constexpr (std::is_same_v<std::remove_cv_t<A>, void> || std::is_same_v<std::remove_cv_t<B>, void>) {
    return std::is_same_v<A, B>;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    using To = std::remove_pointer_t<A>;
    using Other = std::remove_pointer_t<B>;
    if constexpr (std::is_void_v<To> || std::is_void_v<Other>)
      return std::is_same_v<To, Other>;
    else if constexpr (requires { sizeof(To) == sizeof(Other); })
      return std::is_const_v<To> == std::is_const_v<Other> &&
             alike<std::remove_const_t<To>, std::remove_const_t<Other>>();
    else
      return true;  // handles: pointers to what nobody knows
  } else {
    // An enum of the header's is an int here.
    return sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && std::is_class_v<A> == std::is_class_v<B> &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B> &&
           (std::is_integral_v<A> || std::is_enum_v<A>) == (std::is_integral_v<B> || std::is_enum_v<B>);
  }
}

template <class A, class B>
struct SameCall : std::false_type {};
template <class R, class S, class... A, class... B>
  requires(sizeof...(A) == sizeof...(B))
struct SameCall<R (*)(A...), S (*)(B...)> : std::bool_constant<alike<R, S>() && (alike<A, B>() && ...)> {};

#define KDART_CUDA_H_init cuInit
#define KDART_CUDA_H_driver_get_version cuDriverGetVersion
#define KDART_CUDA_H_device_get_count cuDeviceGetCount
#define KDART_CUDA_H_device_get cuDeviceGet
#define KDART_CUDA_H_device_get_name cuDeviceGetName
#define KDART_CUDA_H_device_get_uuid cuDeviceGetUuid_v2
#define KDART_CUDA_H_device_total_mem cuDeviceTotalMem_v2
#define KDART_CUDA_H_device_get_attribute cuDeviceGetAttribute
#define KDART_CUDA_H_device_get_pci_bus_id cuDeviceGetPCIBusId
#define KDART_CUDA_H_device_primary_ctx_retain cuDevicePrimaryCtxRetain
#define KDART_CUDA_H_device_primary_ctx_release cuDevicePrimaryCtxRelease_v2
#define KDART_CUDA_H_ctx_get_current cuCtxGetCurrent
#define KDART_CUDA_H_ctx_push_current cuCtxPushCurrent_v2
#define KDART_CUDA_H_ctx_pop_current cuCtxPopCurrent_v2
#define KDART_CUDA_H_ctx_get_device cuCtxGetDevice
#define KDART_CUDA_H_mem_get_info cuMemGetInfo_v2
#define KDART_CUDA_H_mem_alloc cuMemAlloc_v2
#define KDART_CUDA_H_mem_free cuMemFree_v2
#define KDART_CUDA_H_mem_pool_create cuMemPoolCreate
#define KDART_CUDA_H_mem_pool_destroy cuMemPoolDestroy
#define KDART_CUDA_H_mem_pool_get_attribute cuMemPoolGetAttribute
#define KDART_CUDA_H_mem_pool_set_attribute cuMemPoolSetAttribute
#define KDART_CUDA_H_mem_pool_trim_to cuMemPoolTrimTo
#define KDART_CUDA_H_mem_alloc_from_pool_async cuMemAllocFromPoolAsync
#define KDART_CUDA_H_mem_free_async cuMemFreeAsync
#define KDART_CUDA_H_mem_host_alloc cuMemHostAlloc
#define KDART_CUDA_H_mem_free_host cuMemFreeHost
#define KDART_CUDA_H_pointer_get_attribute cuPointerGetAttribute
#define KDART_CUDA_H_memcpy_htod_async cuMemcpyHtoDAsync_v2
#define KDART_CUDA_H_memcpy_dtoh_async cuMemcpyDtoHAsync_v2
#define KDART_CUDA_H_memcpy_dtod_async cuMemcpyDtoDAsync_v2
#define KDART_CUDA_H_memcpy_2d_async cuMemcpy2DAsync_v2
#define KDART_CUDA_H_memset_d8_async cuMemsetD8Async
#define KDART_CUDA_H_memset_d16_async cuMemsetD16Async
#define KDART_CUDA_H_memset_d32_async cuMemsetD32Async
#define KDART_CUDA_H_stream_create cuStreamCreate
#define KDART_CUDA_H_stream_destroy cuStreamDestroy_v2
#define KDART_CUDA_H_stream_query cuStreamQuery
#define KDART_CUDA_H_stream_synchronize cuStreamSynchronize
#define KDART_CUDA_H_stream_wait_event cuStreamWaitEvent
#define KDART_CUDA_H_stream_get_ctx cuStreamGetCtx
#define KDART_CUDA_H_stream_is_capturing cuStreamIsCapturing
#define KDART_CUDA_H_stream_begin_capture cuStreamBeginCapture_v2
#define KDART_CUDA_H_stream_end_capture cuStreamEndCapture
#define KDART_CUDA_H_event_create cuEventCreate
#define KDART_CUDA_H_event_destroy cuEventDestroy_v2
#define KDART_CUDA_H_event_record cuEventRecord
#define KDART_CUDA_H_event_query cuEventQuery
#define KDART_CUDA_H_event_synchronize cuEventSynchronize
#define KDART_CUDA_H_event_elapsed_time cuEventElapsedTime
#define KDART_CUDA_H_module_load_data_ex cuModuleLoadDataEx
#define KDART_CUDA_H_module_unload cuModuleUnload
#define KDART_CUDA_H_module_get_function cuModuleGetFunction
#define KDART_CUDA_H_func_get_attribute cuFuncGetAttribute
#define KDART_CUDA_H_func_set_attribute cuFuncSetAttribute
#define KDART_CUDA_H_launch_kernel cuLaunchKernel
#define KDART_CUDA_H_graph_instantiate cuGraphInstantiateWithFlags
#define KDART_CUDA_H_graph_launch cuGraphLaunch
#define KDART_CUDA_H_graph_exec_destroy cuGraphExecDestroy
#define KDART_CUDA_H_graph_destroy cuGraphDestroy
#define KDART_CUDA_H_func_get_param_info cuFuncGetParamInfo
#define KDART_CUDA_H_launch_kernel_ex cuLaunchKernelEx

#define KDART_TEST_TEXT_OF(x) #x
#define KDART_TEST_TEXT(x) KDART_TEST_TEXT_OF(x)

#define KDART_TEST_FIELD(type, field)                            \
  CHECK(offsetof(ours::type, field) == offsetof(::type, field)); \
  CHECK(sizeof(ours::type::field) == sizeof(::type::field))

}  // namespace

TEST_CASE("cuda: each entry point has the parameters of cuda.h", "[cuda][no-device]") {
#define KDART_TEST_FUNCTION(member, symbol, parameters)                                          \
  CHECK(SameCall<decltype(ours::Functions::member), decltype(&::KDART_CUDA_H_##member)>::value); \
  CHECK(std::string(symbol) == KDART_TEST_TEXT(KDART_CUDA_H_##member));
  KDART_CUDA_FUNCTIONS(KDART_TEST_FUNCTION)
  KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_TEST_FUNCTION)
#undef KDART_TEST_FUNCTION
  // The comparison tells calls apart.
  STATIC_CHECK(!SameCall<decltype(&::cuInit), decltype(ours::Functions::driver_get_version)>::value);
  STATIC_CHECK(!SameCall<decltype(&::cuMemFree_v2), decltype(ours::Functions::init)>::value);
  STATIC_CHECK(!SameCall<decltype(&::cuMemcpyHtoDAsync_v2), decltype(ours::Functions::memcpy_dtoh_async)>::value);
}

TEST_CASE("cuda: each number is that of cuda.h", "[cuda][no-device]") {
#define KDART_TEST_RESULT(name, number) CHECK((number) == static_cast<int>(::name));
  KDART_CUDA_RESULTS(KDART_TEST_RESULT)
#undef KDART_TEST_RESULT
  std::size_t i = 0;
#define KDART_TEST_NUMBER(x)                              \
  {                                                       \
    const Number& ours_is = our_numbers.at(i++);          \
    INFO(ours_is.name);                                   \
    CHECK(ours_is.value == static_cast<std::int64_t>(x)); \
  }
  KDART_TEST_NUMBERS(KDART_TEST_NUMBER)
#undef KDART_TEST_NUMBER
  CHECK(our_launch_marks ==
        std::vector<const void*>{CU_LAUNCH_PARAM_END, CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE});
}

TEST_CASE("cuda: no number of the backend's is left out", "[cuda][no-device]") {
  std::ifstream file("backends/cuda/api.h");
  std::size_t stated = 0;
  for (std::string line; std::getline(file, line);) {
    std::smatch name;
    if (!std::regex_search(line, name, std::regex("(CU_[A-Z0-9_]+) = [0-9]+[,;]"))) continue;
    ++stated;
    INFO(name[1]);
    CHECK(std::any_of(our_numbers.begin(), our_numbers.end(), [&](const Number& n) { return n.name == name[1]; }));
  }
  CHECK(stated == our_numbers.size());
}

TEST_CASE("cuda: each structure is laid out as in cuda.h", "[cuda][no-device]") {
  CHECK(sizeof(ours::CUuuid) == sizeof(::CUuuid));
  CHECK(alignof(ours::CUuuid) == alignof(::CUuuid));
  KDART_TEST_FIELD(CUuuid, bytes);
  CHECK(sizeof(ours::CUmemLocation) == sizeof(::CUmemLocation));
  CHECK(alignof(ours::CUmemLocation) == alignof(::CUmemLocation));
  KDART_TEST_FIELD(CUmemLocation, type);
  KDART_TEST_FIELD(CUmemLocation, id);
  CHECK(sizeof(ours::CUmemPoolProps) == sizeof(::CUmemPoolProps));
  CHECK(alignof(ours::CUmemPoolProps) == alignof(::CUmemPoolProps));
  KDART_TEST_FIELD(CUmemPoolProps, allocType);
  KDART_TEST_FIELD(CUmemPoolProps, handleTypes);
  KDART_TEST_FIELD(CUmemPoolProps, location);
  KDART_TEST_FIELD(CUmemPoolProps, win32SecurityAttributes);
  KDART_TEST_FIELD(CUmemPoolProps, maxSize);
  KDART_TEST_FIELD(CUmemPoolProps, usage);
  KDART_TEST_FIELD(CUmemPoolProps, reserved);
  CHECK(sizeof(ours::CUDA_MEMCPY2D) == sizeof(::CUDA_MEMCPY2D));
  CHECK(alignof(ours::CUDA_MEMCPY2D) == alignof(::CUDA_MEMCPY2D));
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcXInBytes);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcY);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcMemoryType);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcHost);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcDevice);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcArray);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, srcPitch);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstXInBytes);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstY);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstMemoryType);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstHost);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstDevice);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstArray);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, dstPitch);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, WidthInBytes);
  KDART_TEST_FIELD(CUDA_MEMCPY2D, Height);
  CHECK(sizeof(ours::CUlaunchAttribute) == sizeof(::CUlaunchAttribute));
  CHECK(alignof(ours::CUlaunchAttribute) == alignof(::CUlaunchAttribute));
  KDART_TEST_FIELD(CUlaunchAttribute, id);
  KDART_TEST_FIELD(CUlaunchAttribute, value);
  CHECK(sizeof(ours::CUlaunchConfig) == sizeof(::CUlaunchConfig));
  CHECK(alignof(ours::CUlaunchConfig) == alignof(::CUlaunchConfig));
  KDART_TEST_FIELD(CUlaunchConfig, gridDimX);
  KDART_TEST_FIELD(CUlaunchConfig, gridDimY);
  KDART_TEST_FIELD(CUlaunchConfig, gridDimZ);
  KDART_TEST_FIELD(CUlaunchConfig, blockDimX);
  KDART_TEST_FIELD(CUlaunchConfig, blockDimY);
  KDART_TEST_FIELD(CUlaunchConfig, blockDimZ);
  KDART_TEST_FIELD(CUlaunchConfig, sharedMemBytes);
  KDART_TEST_FIELD(CUlaunchConfig, hStream);
  KDART_TEST_FIELD(CUlaunchConfig, attrs);
  KDART_TEST_FIELD(CUlaunchConfig, numAttrs);
  CHECK(sizeof(ours::CUlaunchAttribute::Value) == sizeof(::CUlaunchAttributeValue));
  CHECK(sizeof(ours::CUlaunchAttribute::Value::clusterDim) == sizeof(::CUlaunchAttributeValue::clusterDim));
  CHECK(sizeof(ours::CUdevice) == sizeof(::CUdevice));
  CHECK(sizeof(ours::CUdeviceptr) == sizeof(::CUdeviceptr));
  CHECK(sizeof(ours::CUresult) == sizeof(::CUresult));
}

}  // namespace kdart::test

#else

TEST_CASE("cuda: the driver's interface is compared with cuda.h", "[cuda][no-device]") {
  SKIP("this build found no cuda.h");
}

#endif
