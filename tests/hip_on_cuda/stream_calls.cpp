// Memory, streams, events and graphs: each call is the driver's of the same purpose.
#include "tests/hip_on_cuda/forward.h"

namespace kdart::hip_on_cuda {
namespace {

cuda::CUdeviceptr address(const void* memory) {
  return reinterpret_cast<cuda::CUdeviceptr>(memory);
}

cuda::CUstream queue(hipStream_t stream) {
  return reinterpret_cast<cuda::CUstream>(stream);
}

cuda::CUevent native(hipEvent_t event) {
  return reinterpret_cast<cuda::CUevent>(event);
}

cuda::CUmemoryPool native(hipMemPool_t pool) {
  return reinterpret_cast<cuda::CUmemoryPool>(pool);
}

// Hands a new object of the driver's out as one of HIP's.
template <class Ours, class Theirs, class Make>
hipError_t make(Ours* made, const Make& call) {
  Theirs object{};
  const auto result = call(&object);
  *made = reinterpret_cast<Ours>(object);
  return from_cuda(result);
}

}  // namespace

hipError_t entry::mem_get_info(std::size_t* free, std::size_t* total) {
  KDART_FORWARD_IN_DEVICE(mem_get_info);
  return from_cuda(cu.mem_get_info(free, total));
}

hipError_t entry::mem_alloc(void** memory, std::size_t bytes) {
  KDART_FORWARD_IN_DEVICE(mem_alloc);
  return make<void*, cuda::CUdeviceptr>(memory, [&](auto* made) { return cu.mem_alloc(made, bytes); });
}

hipError_t entry::mem_free(void* memory) {
  KDART_FORWARD_IN_DEVICE(mem_free);
  return from_cuda(cu.mem_free(address(memory)));
}

hipError_t entry::mem_pool_create(hipMemPool_t* pool, const hipMemPoolProps* props) {
  KDART_FORWARD_IN_DEVICE(mem_pool_create);
  cuda::CUmemPoolProps theirs{};
  theirs.allocType = props->allocType;
  theirs.location = {props->location.type, props->location.id};
  return make<hipMemPool_t, cuda::CUmemoryPool>(pool, [&](auto* made) { return cu.mem_pool_create(made, &theirs); });
}

hipError_t entry::mem_pool_destroy(hipMemPool_t pool) {
  KDART_FORWARD_IN_DEVICE(mem_pool_destroy);
  return from_cuda(cu.mem_pool_destroy(native(pool)));
}

hipError_t entry::mem_pool_get_attribute(hipMemPool_t pool, int attribute, void* value) {
  KDART_FORWARD_IN_DEVICE(mem_pool_get_attribute);
  return from_cuda(cu.mem_pool_get_attribute(native(pool), attribute, value));
}

hipError_t entry::mem_pool_set_attribute(hipMemPool_t pool, int attribute, void* value) {
  KDART_FORWARD_IN_DEVICE(mem_pool_set_attribute);
  return from_cuda(cu.mem_pool_set_attribute(native(pool), attribute, value));
}

hipError_t entry::mem_pool_trim_to(hipMemPool_t pool, std::size_t bytes) {
  KDART_FORWARD_IN_DEVICE(mem_pool_trim_to);
  return from_cuda(cu.mem_pool_trim_to(native(pool), bytes));
}

hipError_t entry::mem_alloc_from_pool_async(void** memory, std::size_t bytes, hipMemPool_t pool, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(mem_alloc_from_pool_async);
  return make<void*, cuda::CUdeviceptr>(
      memory, [&](auto* made) { return cu.mem_alloc_from_pool_async(made, bytes, native(pool), queue(stream)); });
}

hipError_t entry::mem_free_async(void* memory, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(mem_free_async);
  return from_cuda(cu.mem_free_async(address(memory), queue(stream)));
}

hipError_t entry::mem_host_alloc(void** memory, std::size_t bytes, unsigned int flags) {
  KDART_FORWARD_IN_DEVICE(mem_host_alloc);
  return from_cuda(cu.mem_host_alloc(memory, bytes, flags));
}

hipError_t entry::mem_free_host(void* memory) {
  KDART_FORWARD_IN_DEVICE(mem_free_host);
  return from_cuda(cu.mem_free_host(memory));
}

hipError_t entry::memcpy_htod_async(hipDeviceptr_t dst, const void* src, std::size_t bytes, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memcpy_htod_async);
  return from_cuda(cu.memcpy_htod_async(address(dst), src, bytes, queue(stream)));
}

hipError_t entry::memcpy_dtoh_async(void* dst, hipDeviceptr_t src, std::size_t bytes, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memcpy_dtoh_async);
  return from_cuda(cu.memcpy_dtoh_async(dst, address(src), bytes, queue(stream)));
}

hipError_t entry::memcpy_dtod_async(hipDeviceptr_t dst, hipDeviceptr_t src, std::size_t bytes, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memcpy_dtod_async);
  return from_cuda(cu.memcpy_dtod_async(address(dst), address(src), bytes, queue(stream)));
}

hipError_t entry::memcpy_2d_async(void* dst, std::size_t dst_pitch, const void* src, std::size_t src_pitch,
                                  std::size_t width, std::size_t height, int kind, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memcpy_2d_async);
  if (kind != hipMemcpyDeviceToDevice) return hipErrorInvalidValue;
  cuda::CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = copy.dstMemoryType = cuda::CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = address(src);
  copy.srcPitch = src_pitch;
  copy.dstDevice = address(dst);
  copy.dstPitch = dst_pitch;
  copy.WidthInBytes = width;
  copy.Height = height;
  return from_cuda(cu.memcpy_2d_async(&copy, queue(stream)));
}

hipError_t entry::memset_d8_async(hipDeviceptr_t dst, unsigned char value, std::size_t count, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memset_d8_async);
  return from_cuda(cu.memset_d8_async(address(dst), value, count, queue(stream)));
}

hipError_t entry::memset_d16_async(hipDeviceptr_t dst, unsigned short value, std::size_t count, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memset_d16_async);
  return from_cuda(cu.memset_d16_async(address(dst), value, count, queue(stream)));
}

hipError_t entry::memset_d32_async(hipDeviceptr_t dst, int value, std::size_t count, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(memset_d32_async);
  return from_cuda(cu.memset_d32_async(address(dst), static_cast<unsigned int>(value), count, queue(stream)));
}

hipError_t entry::stream_create(hipStream_t* stream, unsigned int flags) {
  KDART_FORWARD_IN_DEVICE(stream_create);
  return make<hipStream_t, cuda::CUstream>(stream, [&](auto* made) { return cu.stream_create(made, flags); });
}

hipError_t entry::stream_destroy(hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(stream_destroy);
  return from_cuda(cu.stream_destroy(queue(stream)));
}

hipError_t entry::stream_query(hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(stream_query);
  return from_cuda(cu.stream_query(queue(stream)));
}

hipError_t entry::stream_synchronize(hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(stream_synchronize);
  return from_cuda(cu.stream_synchronize(queue(stream)));
}

hipError_t entry::stream_wait_event(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  KDART_FORWARD_IN_DEVICE(stream_wait_event);
  return from_cuda(cu.stream_wait_event(queue(stream), native(event), flags));
}

hipError_t entry::stream_is_capturing(hipStream_t stream, int* status) {
  KDART_FORWARD_IN_DEVICE(stream_is_capturing);
  return from_cuda(cu.stream_is_capturing(queue(stream), status));
}

hipError_t entry::stream_begin_capture(hipStream_t stream, int mode) {
  KDART_FORWARD_IN_DEVICE(stream_begin_capture);
  return from_cuda(cu.stream_begin_capture(queue(stream), mode));
}

hipError_t entry::stream_end_capture(hipStream_t stream, hipGraph_t* graph) {
  KDART_FORWARD_IN_DEVICE(stream_end_capture);
  return make<hipGraph_t, cuda::CUgraph>(graph, [&](auto* made) { return cu.stream_end_capture(queue(stream), made); });
}

hipError_t entry::event_create(hipEvent_t* event, unsigned int flags) {
  KDART_FORWARD_IN_DEVICE(event_create);
  return make<hipEvent_t, cuda::CUevent>(event, [&](auto* made) { return cu.event_create(made, flags); });
}

hipError_t entry::event_destroy(hipEvent_t event) {
  KDART_FORWARD_IN_DEVICE(event_destroy);
  return from_cuda(cu.event_destroy(native(event)));
}

hipError_t entry::event_query(hipEvent_t event) {
  KDART_FORWARD_IN_DEVICE(event_query);
  return from_cuda(cu.event_query(native(event)));
}

hipError_t entry::event_synchronize(hipEvent_t event) {
  KDART_FORWARD_IN_DEVICE(event_synchronize);
  return from_cuda(cu.event_synchronize(native(event)));
}

hipError_t entry::event_record(hipEvent_t event, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(event_record);
  return from_cuda(cu.event_record(native(event), queue(stream)));
}

hipError_t entry::event_elapsed_time(float* ms, hipEvent_t start, hipEvent_t end) {
  KDART_FORWARD_IN_DEVICE(event_elapsed_time);
  return from_cuda(cu.event_elapsed_time(ms, native(start), native(end)));
}

hipError_t entry::graph_instantiate(hipGraphExec_t* executable, hipGraph_t graph, void**, char*, std::size_t) {
  KDART_FORWARD_IN_DEVICE(graph_instantiate);
  return make<hipGraphExec_t, cuda::CUgraphExec>(
      executable, [&](auto* made) { return cu.graph_instantiate(made, reinterpret_cast<cuda::CUgraph>(graph), 0); });
}

hipError_t entry::graph_launch(hipGraphExec_t graph, hipStream_t stream) {
  KDART_FORWARD_IN_DEVICE(graph_launch);
  return from_cuda(cu.graph_launch(reinterpret_cast<cuda::CUgraphExec>(graph), queue(stream)));
}

hipError_t entry::graph_exec_destroy(hipGraphExec_t graph) {
  KDART_FORWARD_IN_DEVICE(graph_exec_destroy);
  return from_cuda(cu.graph_exec_destroy(reinterpret_cast<cuda::CUgraphExec>(graph)));
}

hipError_t entry::graph_destroy(hipGraph_t graph) {
  KDART_FORWARD_IN_DEVICE(graph_destroy);
  return from_cuda(cu.graph_destroy(reinterpret_cast<cuda::CUgraph>(graph)));
}

}  // namespace kdart::hip_on_cuda
