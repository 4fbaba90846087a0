// What this backend uses of HIP's module API: its types, numbers and entry points, as the headers of ROCm 5.2 have the
// runtime's binary interface. Written out here, so that building needs no ROCm.
#pragma once

#include <cstddef>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses): the runtime's names, and parameter lists.

namespace kdart::hip {

// --- types ------------------------------------------------------------------------------------------------------------

using hipError_t = int;
using hipDevice_t = int;
using hipDeviceptr_t = void*;
using hipStream_t = struct ihipStream_t*;
using hipEvent_t = struct ihipEvent_t*;
using hipModule_t = struct ihipModule_t*;
using hipFunction_t = struct ihipModuleSymbol_t*;
using hipGraph_t = struct ihipGraph*;
using hipGraphExec_t = struct hipGraphExec*;
using hipMemPool_t = struct ihipMemPoolHandle_t*;

struct hipUUID {
  char bytes[16];
};

struct hipMemLocation {
  int type;
  int id;
};

// The tail has been a maximum size and more since ROCm 6; all of it is 0.
struct hipMemPoolProps {
  int allocType;
  int handleTypes;
  hipMemLocation location;
  void* win32SecurityAttributes;
  unsigned char reserved[64];
};

// --- numbers ----------------------------------------------------------------------------------------------------------

// X(name, number): the results that kdart knows.
#define KDART_HIP_RESULTS(X)                  \
  X(hipSuccess, 0)                            \
  X(hipErrorInvalidValue, 1)                  \
  X(hipErrorOutOfMemory, 2)                   \
  X(hipErrorNotInitialized, 3)                \
  X(hipErrorDeinitialized, 4)                 \
  X(hipErrorInvalidConfiguration, 9)          \
  X(hipErrorInvalidDevicePointer, 17)         \
  X(hipErrorInsufficientDriver, 35)           \
  X(hipErrorInvalidDeviceFunction, 98)        \
  X(hipErrorNoDevice, 100)                    \
  X(hipErrorInvalidDevice, 101)               \
  X(hipErrorInvalidImage, 200)                \
  X(hipErrorInvalidContext, 201)              \
  X(hipErrorContextAlreadyCurrent, 202)       \
  X(hipErrorAlreadyMapped, 208)               \
  X(hipErrorNoBinaryForGpu, 209)              \
  X(hipErrorAlreadyAcquired, 210)             \
  X(hipErrorECCNotCorrectable, 214)           \
  X(hipErrorInvalidKernelFile, 218)           \
  X(hipErrorInvalidSource, 300)               \
  X(hipErrorSharedObjectInitFailed, 303)      \
  X(hipErrorOperatingSystem, 304)             \
  X(hipErrorInvalidHandle, 400)               \
  X(hipErrorIllegalState, 401)                \
  X(hipErrorNotFound, 500)                    \
  X(hipErrorNotReady, 600)                    \
  X(hipErrorIllegalAddress, 700)              \
  X(hipErrorLaunchOutOfResources, 701)        \
  X(hipErrorLaunchTimeOut, 702)               \
  X(hipErrorPeerAccessAlreadyEnabled, 704)    \
  X(hipErrorContextIsDestroyed, 709)          \
  X(hipErrorAssert, 710)                      \
  X(hipErrorHostMemoryAlreadyRegistered, 712) \
  X(hipErrorLaunchFailure, 719)               \
  X(hipErrorCooperativeLaunchTooLarge, 720)   \
  X(hipErrorNotSupported, 801)                \
  X(hipErrorStreamCaptureUnsupported, 900)    \
  X(hipErrorStreamCaptureInvalidated, 901)    \
  X(hipErrorStreamCaptureMerge, 902)          \
  X(hipErrorStreamCaptureUnmatched, 903)      \
  X(hipErrorStreamCaptureUnjoined, 904)       \
  X(hipErrorStreamCaptureIsolation, 905)      \
  X(hipErrorStreamCaptureImplicit, 906)       \
  X(hipErrorCapturedEvent, 907)               \
  X(hipErrorStreamCaptureWrongThread, 908)    \
  X(hipErrorUnknown, 999)                     \
  X(hipErrorRuntimeMemory, 1052)              \
  X(hipErrorRuntimeOther, 1053)

enum : hipError_t {
#define KDART_HIP_RESULT(name, number) name = (number),
  KDART_HIP_RESULTS(KDART_HIP_RESULT)
#undef KDART_HIP_RESULT
};

// Attributes of a device.
enum : int {
  hipDeviceAttributeComputeMode = 6,
  hipDeviceAttributeIntegrated = 16,
  hipDeviceAttributeMaxBlockDimX = 26,
  hipDeviceAttributeMaxBlockDimY = 27,
  hipDeviceAttributeMaxBlockDimZ = 28,
  hipDeviceAttributeMaxGridDimX = 29,
  hipDeviceAttributeMaxGridDimY = 30,
  hipDeviceAttributeMaxGridDimZ = 31,
  hipDeviceAttributeMaxThreadsPerBlock = 56,
  hipDeviceAttributeMaxPitch = 58,
  hipDeviceAttributeMultiprocessorCount = 63,
  hipDeviceAttributeMaxSharedMemoryPerBlock = 74,
  hipDeviceAttributeWarpSize = 87,
  hipDeviceAttributeMemoryPoolsSupported = 88,
};
constexpr int hipComputeModeProhibited = 2;

// Attributes of a function and a pool; flags.
constexpr int HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0;
constexpr int HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1;
constexpr int hipMemPoolAttrReleaseThreshold = 4;
constexpr int hipMemPoolAttrReservedMemCurrent = 5;
constexpr int hipMemPoolAttrUsedMemCurrent = 7;
constexpr int hipMemAllocationTypePinned = 1;
constexpr int hipMemLocationTypeDevice = 1;
constexpr int hipMemcpyDeviceToDevice = 3;
constexpr unsigned int hipStreamNonBlocking = 1;
constexpr unsigned int hipEventDefault = 0;
constexpr unsigned int hipHostMallocPortable = 1;
constexpr int hipStreamCaptureModeRelaxed = 2;
constexpr int hipStreamCaptureStatusNone = 0;
inline void* const HIP_LAUNCH_PARAM_BUFFER_POINTER = reinterpret_cast<void*>(1);
inline void* const HIP_LAUNCH_PARAM_BUFFER_SIZE = reinterpret_cast<void*>(2);
inline void* const HIP_LAUNCH_PARAM_END = reinterpret_cast<void*>(3);

// Where the properties of a device, a structure of two layouts, have the name of its instruction set. The product's name
// comes first in both; the bytes that the larger layout may take are never more than this.
constexpr std::size_t properties_arch_r0600 = 1160;
constexpr std::size_t properties_arch_r0000 = 396;
constexpr std::size_t properties_text = 256;
constexpr std::size_t properties_bytes = 8192;

// --- entry points -----------------------------------------------------------------------------------------------------
//
// X(member of Functions, the runtime's symbol, parameters). Those that ROCm 5.0 lacks, or that are there in one of several
// forms, are optional, and null where they are absent.

#define KDART_HIP_FUNCTIONS(X)                                                                                        \
  X(init, "hipInit", (unsigned int))                                                                                  \
  X(runtime_get_version, "hipRuntimeGetVersion", (int*))                                                              \
  X(device_get_count, "hipGetDeviceCount", (int*))                                                                    \
  X(device_total_mem, "hipDeviceTotalMem", (std::size_t*, hipDevice_t))                                               \
  X(device_get_attribute, "hipDeviceGetAttribute", (int*, int, int))                                                  \
  X(device_get_pci_bus_id, "hipDeviceGetPCIBusId", (char*, int, int))                                                 \
  X(set_device, "hipSetDevice", (int))                                                                                \
  X(get_device, "hipGetDevice", (int*))                                                                               \
  X(mem_get_info, "hipMemGetInfo", (std::size_t*, std::size_t*))                                                      \
  X(mem_alloc, "hipMalloc", (void**, std::size_t))                                                                    \
  X(mem_free, "hipFree", (void*))                                                                                     \
  X(mem_host_alloc, "hipHostMalloc", (void**, std::size_t, unsigned int))                                             \
  X(mem_free_host, "hipHostFree", (void*))                                                                            \
  X(memcpy_htod_async, "hipMemcpyHtoDAsync", (hipDeviceptr_t, const void*, std::size_t, hipStream_t))                 \
  X(memcpy_dtoh_async, "hipMemcpyDtoHAsync", (void*, hipDeviceptr_t, std::size_t, hipStream_t))                       \
  X(memcpy_dtod_async, "hipMemcpyDtoDAsync", (hipDeviceptr_t, hipDeviceptr_t, std::size_t, hipStream_t))              \
  X(memcpy_2d_async, "hipMemcpy2DAsync",                                                                              \
    (void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch, std::size_t width, std::size_t height, \
     int kind, hipStream_t))                                                                                          \
  X(memset_d8_async, "hipMemsetD8Async", (hipDeviceptr_t, unsigned char, std::size_t, hipStream_t))                   \
  X(memset_d16_async, "hipMemsetD16Async", (hipDeviceptr_t, unsigned short, std::size_t, hipStream_t))                \
  X(memset_d32_async, "hipMemsetD32Async", (hipDeviceptr_t, int, std::size_t, hipStream_t))                           \
  X(stream_create, "hipStreamCreateWithFlags", (hipStream_t*, unsigned int))                                          \
  X(stream_destroy, "hipStreamDestroy", (hipStream_t))                                                                \
  X(stream_query, "hipStreamQuery", (hipStream_t))                                                                    \
  X(stream_synchronize, "hipStreamSynchronize", (hipStream_t))                                                        \
  X(stream_wait_event, "hipStreamWaitEvent", (hipStream_t, hipEvent_t, unsigned int))                                 \
  X(stream_is_capturing, "hipStreamIsCapturing", (hipStream_t, int*))                                                 \
  X(stream_begin_capture, "hipStreamBeginCapture", (hipStream_t, int))                                                \
  X(stream_end_capture, "hipStreamEndCapture", (hipStream_t, hipGraph_t*))                                            \
  X(event_create, "hipEventCreateWithFlags", (hipEvent_t*, unsigned int))                                             \
  X(event_destroy, "hipEventDestroy", (hipEvent_t))                                                                   \
  X(event_record, "hipEventRecord", (hipEvent_t, hipStream_t))                                                        \
  X(event_query, "hipEventQuery", (hipEvent_t))                                                                       \
  X(event_synchronize, "hipEventSynchronize", (hipEvent_t))                                                           \
  X(event_elapsed_time, "hipEventElapsedTime", (float*, hipEvent_t, hipEvent_t))                                      \
  X(module_load_data, "hipModuleLoadData", (hipModule_t*, const void*))                                               \
  X(module_unload, "hipModuleUnload", (hipModule_t))                                                                  \
  X(module_get_function, "hipModuleGetFunction", (hipFunction_t*, hipModule_t, const char*))                          \
  X(func_get_attribute, "hipFuncGetAttribute", (int*, int, hipFunction_t))                                            \
  X(launch_kernel, "hipModuleLaunchKernel",                                                                           \
    (hipFunction_t, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int, \
     hipStream_t, void**, void**))                                                                                    \
  X(graph_launch, "hipGraphLaunch", (hipGraphExec_t, hipStream_t))                                                    \
  X(graph_exec_destroy, "hipGraphExecDestroy", (hipGraphExec_t))                                                      \
  X(graph_destroy, "hipGraphDestroy", (hipGraph_t))                                                                   \
  X(graph_instantiate, "hipGraphInstantiate",                                                                         \
    (hipGraphExec_t*, hipGraph_t, void** error_node, char* log, std::size_t log_bytes))

#define KDART_HIP_OPTIONAL_FUNCTIONS(X)                                                                    \
  X(get_properties_r0600, "hipGetDevicePropertiesR0600", (void*, int))                                     \
  X(get_properties_r0000, "hipGetDevicePropertiesR0000", (void*, int))                                     \
  X(get_properties, "hipGetDeviceProperties", (void*, int))                                                \
  X(device_get_uuid, "hipDeviceGetUuid", (hipUUID*, hipDevice_t))                                          \
  X(stream_get_device, "hipStreamGetDevice", (hipStream_t, hipDevice_t*))                                  \
  X(mem_pool_create, "hipMemPoolCreate", (hipMemPool_t*, const hipMemPoolProps*))                          \
  X(mem_pool_destroy, "hipMemPoolDestroy", (hipMemPool_t))                                                 \
  X(mem_pool_get_attribute, "hipMemPoolGetAttribute", (hipMemPool_t, int, void*))                          \
  X(mem_pool_set_attribute, "hipMemPoolSetAttribute", (hipMemPool_t, int, void*))                          \
  X(mem_pool_trim_to, "hipMemPoolTrimTo", (hipMemPool_t, std::size_t))                                     \
  X(mem_alloc_from_pool_async, "hipMallocFromPoolAsync", (void**, std::size_t, hipMemPool_t, hipStream_t)) \
  X(mem_free_async, "hipFreeAsync", (void*, hipStream_t))

// The table. It is filled once (loader.h) and never changed.
struct Functions {
#define KDART_HIP_MEMBER(member, symbol, parameters) hipError_t(*member) parameters = nullptr;
  KDART_HIP_FUNCTIONS(KDART_HIP_MEMBER)
  KDART_HIP_OPTIONAL_FUNCTIONS(KDART_HIP_MEMBER)
#undef KDART_HIP_MEMBER
};

}  // namespace kdart::hip

// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)
