// What this backend uses of the CUDA driver API: its types, numbers and entry points, as the driver's binary interface has
// them. Written out here, so that building needs no toolkit; a test compares it with cuda.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the driver's names, and parameter lists.

namespace kdart::cuda {

// --- types ------------------------------------------------------------------------------------------------------------

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;

struct CUuuid {
  char bytes[16];
};

struct CUmemLocation {
  int type;
  int id;
};

struct CUmemPoolProps {
  int allocType;
  int handleTypes;
  CUmemLocation location;
  void* win32SecurityAttributes;
  std::size_t maxSize;
  unsigned short usage;
  unsigned char reserved[54];
};

struct CUDA_MEMCPY2D {
  std::size_t srcXInBytes, srcY;
  int srcMemoryType;
  const void* srcHost;
  CUdeviceptr srcDevice;
  void* srcArray;
  std::size_t srcPitch;
  std::size_t dstXInBytes, dstY;
  int dstMemoryType;
  void* dstHost;
  CUdeviceptr dstDevice;
  void* dstArray;
  std::size_t dstPitch;
  std::size_t WidthInBytes, Height;
};

// Of the union in cuda.h, 64 bytes wide, what is used here.
struct alignas(8) CUlaunchAttribute {
  int id;
  char pad[4];
  union Value {
    char bytes[64];
    struct {
      unsigned int x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
  } value;
};

struct CUlaunchConfig {
  unsigned int gridDimX, gridDimY, gridDimZ;
  unsigned int blockDimX, blockDimY, blockDimZ;
  unsigned int sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute* attrs;
  unsigned int numAttrs;
};

// --- numbers ----------------------------------------------------------------------------------------------------------

// X(name, number): the results that kdart knows.
#define KDART_CUDA_RESULTS(X)                       \
  X(CUDA_SUCCESS, 0)                                \
  X(CUDA_ERROR_INVALID_VALUE, 1)                    \
  X(CUDA_ERROR_OUT_OF_MEMORY, 2)                    \
  X(CUDA_ERROR_NOT_INITIALIZED, 3)                  \
  X(CUDA_ERROR_DEINITIALIZED, 4)                    \
  X(CUDA_ERROR_STUB_LIBRARY, 34)                    \
  X(CUDA_ERROR_DEVICE_UNAVAILABLE, 46)              \
  X(CUDA_ERROR_NO_DEVICE, 100)                      \
  X(CUDA_ERROR_INVALID_DEVICE, 101)                 \
  X(CUDA_ERROR_INVALID_IMAGE, 200)                  \
  X(CUDA_ERROR_INVALID_CONTEXT, 201)                \
  X(CUDA_ERROR_NO_BINARY_FOR_GPU, 209)              \
  X(CUDA_ERROR_ECC_UNCORRECTABLE, 214)              \
  X(CUDA_ERROR_INVALID_PTX, 218)                    \
  X(CUDA_ERROR_NVLINK_UNCORRECTABLE, 220)           \
  X(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, 221)         \
  X(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 222)        \
  X(CUDA_ERROR_JIT_COMPILATION_DISABLED, 223)       \
  X(CUDA_ERROR_CONTAINED, 226)                      \
  X(CUDA_ERROR_INVALID_SOURCE, 300)                 \
  X(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, 303)      \
  X(CUDA_ERROR_OPERATING_SYSTEM, 304)               \
  X(CUDA_ERROR_INVALID_HANDLE, 400)                 \
  X(CUDA_ERROR_NOT_FOUND, 500)                      \
  X(CUDA_ERROR_NOT_READY, 600)                      \
  X(CUDA_ERROR_ILLEGAL_ADDRESS, 700)                \
  X(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, 701)        \
  X(CUDA_ERROR_LAUNCH_TIMEOUT, 702)                 \
  X(CUDA_ERROR_CONTEXT_IS_DESTROYED, 709)           \
  X(CUDA_ERROR_ASSERT, 710)                         \
  X(CUDA_ERROR_HARDWARE_STACK_ERROR, 714)           \
  X(CUDA_ERROR_ILLEGAL_INSTRUCTION, 715)            \
  X(CUDA_ERROR_MISALIGNED_ADDRESS, 716)             \
  X(CUDA_ERROR_INVALID_ADDRESS_SPACE, 717)          \
  X(CUDA_ERROR_INVALID_PC, 718)                     \
  X(CUDA_ERROR_LAUNCH_FAILED, 719)                  \
  X(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, 720)   \
  X(CUDA_ERROR_NOT_PERMITTED, 800)                  \
  X(CUDA_ERROR_NOT_SUPPORTED, 801)                  \
  X(CUDA_ERROR_SYSTEM_NOT_READY, 802)               \
  X(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, 803)         \
  X(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, 804) \
  X(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, 900)     \
  X(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, 901)     \
  X(CUDA_ERROR_STREAM_CAPTURE_MERGE, 902)           \
  X(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, 903)       \
  X(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, 904)        \
  X(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, 905)       \
  X(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, 906)        \
  X(CUDA_ERROR_CAPTURED_EVENT, 907)                 \
  X(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, 908)    \
  X(CUDA_ERROR_INVALID_CLUSTER_SIZE, 912)

enum : CUresult {
#define KDART_CUDA_RESULT(name, number) name = (number),
  KDART_CUDA_RESULTS(KDART_CUDA_RESULT)
#undef KDART_CUDA_RESULT
};

// Attributes of a device.
enum : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X = 2,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y = 3,
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z = 4,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X = 5,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y = 6,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z = 7,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_MAX_PITCH = 11,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_COMPUTE_MODE = 20,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
};
constexpr int CU_COMPUTEMODE_PROHIBITED = 2;

// Attributes of a function, a pointer, a pool; flags.
constexpr int CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
constexpr int CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
constexpr int CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2;
constexpr int CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4;
constexpr int CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5;
constexpr int CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7;
constexpr int CU_MEM_ALLOCATION_TYPE_PINNED = 1;
constexpr int CU_MEM_LOCATION_TYPE_DEVICE = 1;
constexpr int CU_MEMORYTYPE_DEVICE = 2;
constexpr unsigned int CU_STREAM_NON_BLOCKING = 1;
constexpr unsigned int CU_EVENT_DEFAULT = 0;
constexpr unsigned int CU_MEMHOSTALLOC_PORTABLE = 1;
constexpr int CU_STREAM_CAPTURE_MODE_RELAXED = 2;
constexpr int CU_STREAM_CAPTURE_STATUS_NONE = 0;
constexpr int CU_JIT_INFO_LOG_BUFFER = 3;
constexpr int CU_JIT_ERROR_LOG_BUFFER = 5;
constexpr int CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6;
constexpr int CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4;
constexpr int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;
inline void* const CU_LAUNCH_PARAM_END = nullptr;
inline void* const CU_LAUNCH_PARAM_BUFFER_POINTER = reinterpret_cast<void*>(1);
inline void* const CU_LAUNCH_PARAM_BUFFER_SIZE = reinterpret_cast<void*>(2);

// --- entry points -----------------------------------------------------------------------------------------------------
//
// X(member of Functions, the driver's symbol, parameters). Those that a driver of CUDA 11.4 (470) lacks are optional, and
// null there. A symbol's version in its name is the one whose parameters stand here.

#define KDART_CUDA_FUNCTIONS(X)                                                                                    \
  X(init, "cuInit", (unsigned int))                                                                                \
  X(driver_get_version, "cuDriverGetVersion", (int*))                                                              \
  X(device_get_count, "cuDeviceGetCount", (int*))                                                                  \
  X(device_get, "cuDeviceGet", (CUdevice*, int))                                                                   \
  X(device_get_name, "cuDeviceGetName", (char*, int, CUdevice))                                                    \
  X(device_get_uuid, "cuDeviceGetUuid_v2", (CUuuid*, CUdevice))                                                    \
  X(device_total_mem, "cuDeviceTotalMem_v2", (std::size_t*, CUdevice))                                             \
  X(device_get_attribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                           \
  X(device_get_pci_bus_id, "cuDeviceGetPCIBusId", (char*, int, CUdevice))                                          \
  X(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                 \
  X(device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice))                                        \
  X(ctx_get_current, "cuCtxGetCurrent", (CUcontext*))                                                              \
  X(ctx_push_current, "cuCtxPushCurrent_v2", (CUcontext))                                                          \
  X(ctx_pop_current, "cuCtxPopCurrent_v2", (CUcontext*))                                                           \
  X(ctx_get_device, "cuCtxGetDevice", (CUdevice*))                                                                 \
  X(mem_get_info, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                                 \
  X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr*, std::size_t))                                                       \
  X(mem_free, "cuMemFree_v2", (CUdeviceptr))                                                                       \
  X(mem_pool_create, "cuMemPoolCreate", (CUmemoryPool*, const CUmemPoolProps*))                                    \
  X(mem_pool_destroy, "cuMemPoolDestroy", (CUmemoryPool))                                                          \
  X(mem_pool_get_attribute, "cuMemPoolGetAttribute", (CUmemoryPool, int, void*))                                   \
  X(mem_pool_set_attribute, "cuMemPoolSetAttribute", (CUmemoryPool, int, void*))                                   \
  X(mem_pool_trim_to, "cuMemPoolTrimTo", (CUmemoryPool, std::size_t))                                              \
  X(mem_alloc_from_pool_async, "cuMemAllocFromPoolAsync", (CUdeviceptr*, std::size_t, CUmemoryPool, CUstream))     \
  X(mem_free_async, "cuMemFreeAsync", (CUdeviceptr, CUstream))                                                     \
  X(mem_host_alloc, "cuMemHostAlloc", (void**, std::size_t, unsigned int))                                         \
  X(mem_free_host, "cuMemFreeHost", (void*))                                                                       \
  X(pointer_get_attribute, "cuPointerGetAttribute", (void*, int, CUdeviceptr))                                     \
  X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, std::size_t, CUstream))                  \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, std::size_t, CUstream))                        \
  X(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, std::size_t, CUstream))                  \
  X(memcpy_2d_async, "cuMemcpy2DAsync_v2", (const CUDA_MEMCPY2D*, CUstream))                                       \
  X(memset_d8_async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, std::size_t, CUstream))                       \
  X(memset_d16_async, "cuMemsetD16Async", (CUdeviceptr, unsigned short, std::size_t, CUstream))                    \
  X(memset_d32_async, "cuMemsetD32Async", (CUdeviceptr, unsigned int, std::size_t, CUstream))                      \
  X(stream_create, "cuStreamCreate", (CUstream*, unsigned int))                                                    \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream))                                                              \
  X(stream_query, "cuStreamQuery", (CUstream))                                                                     \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream))                                                         \
  X(stream_wait_event, "cuStreamWaitEvent", (CUstream, CUevent, unsigned int))                                     \
  X(stream_get_ctx, "cuStreamGetCtx", (CUstream, CUcontext*))                                                      \
  X(stream_is_capturing, "cuStreamIsCapturing", (CUstream, int*))                                                  \
  X(stream_begin_capture, "cuStreamBeginCapture_v2", (CUstream, int))                                              \
  X(stream_end_capture, "cuStreamEndCapture", (CUstream, CUgraph*))                                                \
  X(event_create, "cuEventCreate", (CUevent*, unsigned int))                                                       \
  X(event_destroy, "cuEventDestroy_v2", (CUevent))                                                                 \
  X(event_record, "cuEventRecord", (CUevent, CUstream))                                                            \
  X(event_query, "cuEventQuery", (CUevent))                                                                        \
  X(event_synchronize, "cuEventSynchronize", (CUevent))                                                            \
  X(event_elapsed_time, "cuEventElapsedTime", (float*, CUevent, CUevent))                                          \
  X(module_load_data_ex, "cuModuleLoadDataEx", (CUmodule*, const void*, unsigned int, int*, void**))               \
  X(module_unload, "cuModuleUnload", (CUmodule))                                                                   \
  X(module_get_function, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                              \
  X(func_get_attribute, "cuFuncGetAttribute", (int*, int, CUfunction))                                             \
  X(func_set_attribute, "cuFuncSetAttribute", (CUfunction, int, int))                                              \
  X(launch_kernel, "cuLaunchKernel",                                                                               \
    (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
     CUstream, void**, void**))                                                                                    \
  X(graph_instantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))                 \
  X(graph_launch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                        \
  X(graph_exec_destroy, "cuGraphExecDestroy", (CUgraphExec))                                                       \
  X(graph_destroy, "cuGraphDestroy", (CUgraph))

#define KDART_CUDA_OPTIONAL_FUNCTIONS(X)                                                              \
  X(func_get_param_info, "cuFuncGetParamInfo", (CUfunction, std::size_t, std::size_t*, std::size_t*)) \
  X(launch_kernel_ex, "cuLaunchKernelEx", (const CUlaunchConfig*, CUfunction, void**, void**))

// The table. It is filled once (loader.h) and never changed.
struct Functions {
#define KDART_CUDA_MEMBER(member, symbol, parameters) CUresult(*member) parameters = nullptr;
  KDART_CUDA_FUNCTIONS(KDART_CUDA_MEMBER)
  KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_CUDA_MEMBER)
#undef KDART_CUDA_MEMBER
};

}  // namespace kdart::cuda

// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
