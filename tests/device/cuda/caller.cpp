#include "tests/device/cuda/caller.h"

#include <dlfcn.h>

#include <array>
#include <catch2/catch_test_macros.hpp>

namespace kdart::test {
namespace {

// What cuda.h calls these.
constexpr int capture_mode_relaxed = 2;
constexpr std::uintptr_t launch_param_end = 0;
constexpr std::uintptr_t launch_param_buffer = 1;
constexpr std::uintptr_t launch_param_size = 2;

void expect_success(const char* call, int result) {
  INFO(call);
  REQUIRE(result == 0);
}

template <class Function>
void load(void* library, const char* symbol, Function& function) {
  INFO(symbol);
  function = reinterpret_cast<Function>(dlsym(library, symbol));
  REQUIRE(function != nullptr);
}

}  // namespace

#define KDART_CALL(entry, ...) expect_success(#entry, cu_.entry(__VA_ARGS__))

Caller::Caller(const DeviceInfo& device) {
  // Never closed: the device under test has it open too, and goes on having it.
  void* library = dlopen(device.driver_library.c_str(), RTLD_NOW);
  REQUIRE(library != nullptr);
  load(library, "cuCtxCreate_v2", cu_.ctx_create);
  load(library, "cuCtxDestroy_v2", cu_.ctx_destroy);
  load(library, "cuCtxPushCurrent_v2", cu_.ctx_push);
  load(library, "cuCtxPopCurrent_v2", cu_.ctx_pop);
  load(library, "cuCtxGetCurrent", cu_.ctx_current);
  load(library, "cuDeviceGet", cu_.device_get);
  load(library, "cuStreamCreate", cu_.stream_create);
  load(library, "cuStreamDestroy_v2", cu_.stream_destroy);
  load(library, "cuStreamSynchronize", cu_.stream_synchronize);
  load(library, "cuMemAlloc_v2", cu_.mem_alloc);
  load(library, "cuMemFree_v2", cu_.mem_free);
  load(library, "cuMemsetD32Async", cu_.memset_d32);
  load(library, "cuMemcpyDtoDAsync_v2", cu_.memcpy_dtod);
  load(library, "cuMemcpyDtoHAsync_v2", cu_.memcpy_dtoh);
  load(library, "cuLaunchKernel", cu_.launch_kernel);
  load(library, "cuStreamBeginCapture_v2", cu_.begin_capture);
  load(library, "cuStreamEndCapture", cu_.end_capture);
  load(library, "cuGraphInstantiateWithFlags", cu_.graph_instantiate);
  load(library, "cuGraphDestroy", cu_.graph_destroy);
  load(library, "cuGraphLaunch", cu_.graph_launch);
  load(library, "cuGraphExecDestroy", cu_.graph_exec_destroy);
  int number = 0;
  KDART_CALL(device_get, &number, static_cast<int>(device.index));
  KDART_CALL(ctx_create, &context_, 0, number);
  void* popped = nullptr;
  KDART_CALL(ctx_pop, &popped);
}

Caller::~Caller() {
  if (context_ != nullptr) CHECK(cu_.ctx_destroy(context_) == 0);
}

void Caller::destroy_context() {
  KDART_CALL(ctx_destroy, context_);
  context_ = nullptr;
}

Caller::Inside::Inside(const Caller& caller) : caller_(&caller) {
  expect_success("ctx_push", caller.cu_.ctx_push(caller.context_));
}

Caller::Inside::~Inside() {
  void* popped = nullptr;
  CHECK(caller_->cu_.ctx_pop(&popped) == 0);
  CHECK(popped == caller_->context_);
}

void* Caller::current() const {
  void* context = nullptr;
  KDART_CALL(ctx_current, &context);
  return context;
}

std::size_t Caller::depth() const {
  std::vector<void*> stack;
  while (current() != nullptr) {
    stack.push_back(nullptr);
    KDART_CALL(ctx_pop, &stack.back());
  }
  for (auto context = stack.rbegin(); context != stack.rend(); ++context) KDART_CALL(ctx_push, *context);
  return stack.size();
}

void* Caller::create_stream(unsigned flags) const {
  const Inside inside(*this);
  void* stream = nullptr;
  KDART_CALL(stream_create, &stream, flags);
  return stream;
}

void Caller::destroy_stream(void* stream) const {
  const Inside inside(*this);
  KDART_CALL(stream_destroy, stream);
}

void Caller::synchronize(void* stream) const {
  const Inside inside(*this);
  KDART_CALL(stream_synchronize, stream);
}

std::uint64_t Caller::alloc(std::size_t bytes) const {
  const Inside inside(*this);
  unsigned long long memory = 0;
  KDART_CALL(mem_alloc, &memory, bytes);
  return memory;
}

void Caller::free(std::uint64_t memory) const {
  const Inside inside(*this);
  KDART_CALL(mem_free, memory);
}

void Caller::fill(std::uint64_t memory, std::uint32_t value, std::size_t words, void* stream) const {
  const Inside inside(*this);
  KDART_CALL(memset_d32, memory, value, words, stream);
}

void Caller::copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) const {
  const Inside inside(*this);
  KDART_CALL(memcpy_dtod, to, from, bytes, stream);
}

std::vector<std::uint32_t> Caller::read(std::uint64_t memory, std::size_t words, void* stream) const {
  const Inside inside(*this);
  std::vector<std::uint32_t> values(words);
  KDART_CALL(memcpy_dtoh, values.data(), memory, words * sizeof values[0], stream);
  KDART_CALL(stream_synchronize, stream);
  return values;
}

void Caller::launch(void* kernel, std::uint32_t grid, std::uint32_t block, std::span<std::byte> arguments,
                    void* stream) const {
  const Inside inside(*this);
  std::size_t bytes = arguments.size();
  std::array<void*, 5> extra{reinterpret_cast<void*>(launch_param_buffer), arguments.data(),
                             reinterpret_cast<void*>(launch_param_size), &bytes,
                             reinterpret_cast<void*>(launch_param_end)};
  KDART_CALL(launch_kernel, kernel, grid, 1, 1, block, 1, 1, 0, stream, nullptr, extra.data());
}

void Caller::begin_capture(void* stream) const {
  const Inside inside(*this);
  KDART_CALL(begin_capture, stream, capture_mode_relaxed);
}

void* Caller::end_capture(void* stream) const {
  const Inside inside(*this);
  void* recorded = nullptr;
  KDART_CALL(end_capture, stream, &recorded);
  void* graph = nullptr;
  KDART_CALL(graph_instantiate, &graph, recorded, 0);
  KDART_CALL(graph_destroy, recorded);
  return graph;
}

void Caller::launch_graph(void* graph, void* stream) const {
  const Inside inside(*this);
  KDART_CALL(graph_launch, graph, stream);
}

void Caller::destroy_graph(void* graph) const {
  const Inside inside(*this);
  KDART_CALL(graph_exec_destroy, graph);
}

}  // namespace kdart::test
