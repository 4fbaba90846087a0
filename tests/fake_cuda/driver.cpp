#include "tests/fake_cuda/driver.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace kdart::fake_cuda {
namespace {

constexpr std::size_t max_devices = 8;

constexpr std::array<const char*, static_cast<std::size_t>(Function::count)> symbols{
#define KDART_FAKE_SYMBOL(member, symbol, parameters) symbol,
    KDART_CUDA_FUNCTIONS(KDART_FAKE_SYMBOL) KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_FAKE_SYMBOL)
#undef KDART_FAKE_SYMBOL
};

std::map<int, int> h200_attributes() {
  return {{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
          {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
          {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
          {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
          {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
          {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
          {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
          {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
          {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
          {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
          {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
          {CU_DEVICE_ATTRIBUTE_INTEGRATED, 0},
          {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, 0},
          {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
          {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
          {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
          {CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0},
          {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1}};
}

struct ThreadStack {
  std::uint64_t epoch = 0;
  std::vector<Context*> contexts;
};

bool overlaps(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return std::less<>()(a, b + b_bytes) && std::less<>()(b, a + a_bytes);
}

}  // namespace

const char* symbol_of(Function function) noexcept {
  return symbols[static_cast<std::size_t>(function)];
}

std::vector<Context*>& stack() {
  thread_local ThreadStack mine;
  const std::uint64_t epoch = Driver::get().epoch;
  if (mine.epoch != epoch) mine = {epoch, {}};
  return mine.contexts;
}

Driver& Driver::get() {
  // Never destroyed: a program may let go of its last device while it exits.
  static Driver* const driver = [] {
    auto* made = new Driver;
    made->reset();
    return made;
  }();
  return *driver;
}

void Driver::reset() {
  for (const auto& [address, block] : memory) std::free(reinterpret_cast<void*>(address));
  for (const auto& [address, bytes] : pinned) std::free(const_cast<std::byte*>(address));
  memory.clear();
  pinned.clear();
  registered.clear();
  // Work that never ran holds on to streams, and they to it.
  const auto forget_work = [](Stream& stream) { stream.pending.clear(); };
  for (const auto& [handle, stream] : streams.alive) forget_work(*stream);
  for (const auto& stream : streams.dead) forget_work(*stream);
  const auto forget_work_of = [&](const Context& context) {
    if (context.legacy != nullptr) forget_work(*context.legacy);
    for (const auto& [thread, stream] : context.per_thread) forget_work(*stream);
  };
  for (const auto& [handle, context] : contexts.alive) forget_work_of(*context);
  for (const auto& context : contexts.dead) forget_work_of(*context);
  contexts = {};
  streams = {};
  events = {};
  graphs = executables = {};
  modules = {};
  kernels = {};
  pools = {};
  excused.clear();

  ++epoch;
  started_by = 0;
  version = 13000;
  device_count = 1;
  devices.assign(max_devices, {});
  for (Device& device : devices) {
    device.attributes = h200_attributes();
    device.total = std::size_t{141} << 30;
  }
  facts.clear();
  exact_pools = false;

  answer = lost = image_result = CUDA_SUCCESS;
  injected.clear();
  faulting_kernels.clear();
  image_log.clear();
  refused_functions.clear();

  held = false;
  not_ready = 0;
  clock = 0;
  calls.clear();
  launches.clear();
  violations.clear();
}

void Driver::give_up() {
  static_cast<void>(
      std::fputs("the fake CUDA driver: a call waits for work that is held back, and nobody lets it go\n", stderr));
  std::abort();
}

std::shared_ptr<Context> Driver::make_context(int device) {
  auto context = contexts.make();
  context->device = device;
  context->legacy = std::make_shared<Stream>();
  context->legacy->context = context.get();
  return context;
}

// A context that ends takes what is in it along.
void Driver::end_context(const std::shared_ptr<Context>& context) {
  const auto leave = [&](auto& table, const char* what) {
    const auto all = table.alive;
    for (const auto& [handle, object] : all) {
      if (object->context != context.get()) continue;
      if (!excused.contains(handle)) violation(std::string("a context ended with ") + what + " in it");
      table.end(object);
    }
  };
  leave(streams, "a stream");
  leave(events, "an event");
  leave(modules, "a module");
  for (auto block = memory.begin(); block != memory.end();) {
    const CUdeviceptr address = (block++)->first;
    const Memory& found = memory.at(address);
    if (found.context != context.get()) continue;
    if (!found.freed && !excused.contains(reinterpret_cast<const void*>(address)))
      violation("a context ended with memory in it");
    release(address);
  }
  context->alive = false;
  contexts.end(context);
}

Memory* Driver::memory_at(CUdeviceptr address, std::size_t bytes) {
  const auto after = memory.upper_bound(address);
  if (after == memory.begin()) return nullptr;
  const auto found = std::prev(after);
  const CUdeviceptr offset = address - found->first;
  return offset <= found->second.bytes && bytes <= found->second.bytes - offset ? &found->second : nullptr;
}

void Driver::release(CUdeviceptr address) {
  const auto found = memory.find(address);
  if (found == memory.end()) return;
  Memory& block = found->second;
  if (block.pool != nullptr) {
    block.pool->used -= block.bytes;
    block.pool->free_blocks.insert(block.bytes);
  } else {
    devices[static_cast<std::size_t>(block.context->device)].used -= block.bytes;
  }
  std::free(reinterpret_cast<void*>(address));
  memory.erase(found);
}

void Driver::trim(Device& device, Pool& pool, std::size_t keep) {
  while (pool.reserved > keep && !pool.free_blocks.empty()) {
    const std::size_t bytes = *pool.free_blocks.begin();
    pool.free_blocks.erase(pool.free_blocks.begin());
    pool.reserved -= bytes;
    device.used -= bytes;
  }
}

bool Driver::is_page_locked(const void* where) const {
  const auto* address = static_cast<const std::byte*>(where);
  const auto inside = [&](const std::map<const std::byte*, std::size_t>& ranges) {
    const auto after = ranges.upper_bound(address);
    return after != ranges.begin() &&
           static_cast<std::size_t>(address - std::prev(after)->first) < std::prev(after)->second;
  };
  return inside(pinned) || inside(registered);
}

// --- work -------------------------------------------------------------------------------------------------------------

CUresult Driver::give(Stream& stream, Operation operation) {
  if (Capture* const capture = stream.capture.get(); capture != nullptr) {
    capture->before.push_back(stream.frontier);
    stream.frontier = {capture->operations.size()};
    capture->operations.push_back(std::move(operation));
    return CUDA_SUCCESS;
  }
  stream.pending.push_back(std::move(operation));
  return CUDA_SUCCESS;
}

bool Driver::run(Stream& stream, std::uint64_t position) {
  while (stream.done < position) {
    if (held || stream.running) return false;
    const std::shared_ptr<Stream> before = stream.pending.front().after;
    if (before != nullptr && !run(*before, stream.pending.front().after_position)) return false;
    const Operation operation = std::move(stream.pending.front());
    stream.pending.pop_front();
    ++clock;
    const bool stopped = stream.context->fault != CUDA_SUCCESS || lost != CUDA_SUCCESS;
    if (operation.run && (operation.books_only || !stopped)) operation.run(*this);
    ++stream.done;
    moved.notify_all();
  }
  return true;
}

bool Driver::run_everything() {
  bool all = true;
  for (const auto& [handle, stream] : streams.alive) all = run(*stream) && all;
  for (const auto& stream : streams.dead) all = run(*stream) && all;
  for (const auto& [handle, context] : contexts.alive) {
    all = run(*context->legacy) && all;
    for (const auto& [thread, stream] : context->per_thread) all = run(*stream) && all;
  }
  return all;
}

bool needs(const Operation& operation, const Module& module) {
  if (operation.module == &module) return true;
  return operation.graph != nullptr && std::any_of(operation.graph->begin(), operation.graph->end(),
                                                   [&](const Operation& inner) { return needs(inner, module); });
}

bool needs(const Operation& operation, const std::byte* host, std::size_t bytes) {
  return operation.host.first != nullptr && overlaps(operation.host.first, operation.host.second, host, bytes);
}

// --- calls ------------------------------------------------------------------------------------------------------------

namespace {

// Those that work in a process that has not started the driver.
bool needs_start(Function function) {
  return function != Function::init && function != Function::driver_get_version;
}

// Those that work on a thread without a context.
bool needs_context(Function function) {
  switch (function) {
    case Function::init:
    case Function::driver_get_version:
    case Function::device_get_count:
    case Function::device_get:
    case Function::device_get_name:
    case Function::device_get_uuid:
    case Function::device_total_mem:
    case Function::device_get_attribute:
    case Function::device_get_pci_bus_id:
    case Function::device_primary_ctx_retain:
    case Function::device_primary_ctx_release:
    case Function::ctx_get_current:
    case Function::ctx_push_current:
    case Function::ctx_pop_current:
    case Function::graph_destroy:
    case Function::graph_exec_destroy:
      return false;
    default:
      return true;
  }
}

}  // namespace

Call::Call(Function function) : driver_(Driver::get()), lock_(driver_.mutex), function_(function) {
  begin(nullptr, false);
}

Call::Call(Function function, const void* released)
    : driver_(Driver::get()), lock_(driver_.mutex), function_(function) {
  begin(released, true);
}

// True when this call was told to fail without doing anything.
bool Call::take_injected(const void* released, bool releases) {
  const std::string_view symbol = symbol_of(function_);
  bool refuses = false;
  for (InjectedFault& fault : driver_.injected) {
    if (fault.left == 0 || (!fault.symbol.empty() && fault.symbol != symbol) || --fault.left != 0) continue;
    result_ = fault.result;
    if (fault.lasting) driver_.lost = fault.result;
    refuses = !(fault.lasting && releases);
  }
  if (refuses && releases) driver_.excused.insert(released);
  return refuses;
}

void Call::begin(const void* released, bool releases) {
  driver_.calls.push_back(function_);
  refused_ = true;
  if (driver_.answer != CUDA_SUCCESS) {
    result_ = driver_.answer;
    if (releases) driver_.excused.insert(released);
    return;
  }
  if (take_injected(released, releases)) return;
  if (needs_start(function_) && driver_.started_by != getpid()) {
    result_ = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  const auto& contexts = stack();
  context_ = contexts.empty() ? nullptr : contexts.back();
  if (needs_context(function_)) {
    if (context_ == nullptr) {
      result_ = violation(CUDA_ERROR_INVALID_CONTEXT, "called with no current context");
      return;
    }
    if (!context_->alive) {
      result_ = violation(CUDA_ERROR_CONTEXT_IS_DESTROYED, "called in a context that was destroyed");
      return;
    }
    if (result_ == CUDA_SUCCESS) result_ = driver_.lost != CUDA_SUCCESS ? driver_.lost : context_->fault;
    if (result_ != CUDA_SUCCESS && !releases) return;
  }
  refused_ = false;
}

CUresult Call::violation(CUresult result, std::string_view what) const {
  if (result_ != CUDA_SUCCESS) return result_;  // after a fault nobody knows what is there
  driver_.violation(std::string(symbol_of(function_)) + ": " + std::string(what));
  return result;
}

std::shared_ptr<Stream> Call::stream(CUstream handle, CUresult& result) const {
  result = CUDA_SUCCESS;
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= 1) {
    for (const auto& [other, stream] : driver_.streams.alive) {
      if (stream->context != context_ || !stream->blocking || stream->capture == nullptr) continue;
      stream->capture->invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      return nullptr;
    }
    return context_->legacy;
  }
  if (number == 2) {
    auto& mine = context_->per_thread[std::this_thread::get_id()];
    if (mine == nullptr) {
      mine = std::make_shared<Stream>();
      mine->context = context_;
    }
    return mine;
  }
  auto found = driver_.streams.find(handle);
  if (found == nullptr) {
    result = violation(CUDA_ERROR_INVALID_HANDLE, "of a stream that is not alive");
  } else if (found->context != context_) {
    result = violation(CUDA_ERROR_INVALID_HANDLE, "of a stream of a context that is not current");
    return nullptr;
  }
  return found;
}

CUresult Call::give(CUstream handle, Operation operation) const {
  CUresult result = CUDA_SUCCESS;
  const auto queue = stream(handle, result);
  return queue == nullptr ? result : driver_.give(*queue, std::move(operation));
}

}  // namespace kdart::fake_cuda
