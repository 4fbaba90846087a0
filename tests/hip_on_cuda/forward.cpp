#include "tests/hip_on_cuda/forward.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace kdart::hip_on_cuda {
namespace {

constexpr std::array<const char*, static_cast<std::size_t>(Function::count)> symbols{
#define KDART_FORWARD_SYMBOL(member, symbol, parameters) symbol,
    KDART_HIP_FUNCTIONS(KDART_FORWARD_SYMBOL) KDART_HIP_OPTIONAL_FUNCTIONS(KDART_FORWARD_SYMBOL)
#undef KDART_FORWARD_SYMBOL
};

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

// The driver's call that does what this one asks for; null where there is no single one.
const char* driver_call(Function function) {
  struct Pair {
    const char* hip;
    const char* cuda;
  };
  static const std::map<std::string, const char*> by_member{
#define KDART_FORWARD_CUDA(member, symbol, parameters) {#member, symbol},
      KDART_CUDA_FUNCTIONS(KDART_FORWARD_CUDA)
#undef KDART_FORWARD_CUDA
  };
  static const std::array<const char*, static_cast<std::size_t>(Function::count)> members{
#define KDART_FORWARD_MEMBER(member, symbol, parameters) #member,
      KDART_HIP_FUNCTIONS(KDART_FORWARD_MEMBER) KDART_HIP_OPTIONAL_FUNCTIONS(KDART_FORWARD_MEMBER)
#undef KDART_FORWARD_MEMBER
  };
  const auto found = by_member.find(members[static_cast<std::size_t>(function)]);
  return found == by_member.end() ? nullptr : found->second;
}

struct ThreadDevice {
  std::uint64_t epoch = 0;
  int device = 0;
};

}  // namespace

const char* symbol_of(Function function) noexcept {
  return symbols[static_cast<std::size_t>(function)];
}

Forward& Forward::get() {
  // Never destroyed: a program may let go of its last device while it exits.
  static Forward* const forward = [] {
    auto* made = new Forward;
    made->driver = variable("KDART_HIP_ON_CUDA_DRIVER", "libcuda.so.1");
    made->target = variable("KDART_HIP_ON_CUDA_TARGET", "gfx90a:sramecc+:xnack-");
    made->images = variable("KDART_HIP_ON_CUDA_IMAGES", "");
    return made;
  }();
  return *forward;
}

int& current_device() {
  thread_local ThreadDevice mine;
  const std::uint64_t epoch = Forward::get().epoch;
  if (mine.epoch != epoch) mine = {epoch, 0};
  return mine.device;
}

hipError_t from_cuda(cuda::CUresult result) noexcept {
  using namespace cuda;  // NOLINT: the driver's names
  switch (result) {
    case CUDA_ERROR_STUB_LIBRARY:
      return hipErrorNoDevice;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return hipErrorInsufficientDriver;
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
      return hipErrorLaunchFailure;
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
    case CUDA_ERROR_JIT_COMPILATION_DISABLED:
      return hipErrorNoBinaryForGpu;
    default:
      return result;
  }
}

hipError_t Forward::start() {
  const std::lock_guard lock(mutex);
  if (!started) {
    void* library = dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return hipErrorNoDevice;
    bool complete = true;
#define KDART_FORWARD_LOAD(member, symbol, parameters) \
  cu.member = reinterpret_cast<decltype(cu.member)>(dlsym(library, symbol));
#define KDART_FORWARD_NEED(member, symbol, parameters) \
  KDART_FORWARD_LOAD(member, symbol, parameters)       \
  complete = complete && cu.member != nullptr;
    KDART_CUDA_FUNCTIONS(KDART_FORWARD_NEED)
    KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_FORWARD_LOAD)
#undef KDART_FORWARD_NEED
#undef KDART_FORWARD_LOAD
    if (!complete) return hipErrorInsufficientDriver;
    fake = static_cast<const fake_cuda::Control*>(dlsym(library, fake_cuda::control_symbol));
    started = true;
  }
  return from_cuda(cu.init(0));
}

// A call that reaches the fake driver fails there: it knows that what such a call was to release is no leak.
hipError_t Forward::enter(Function function) {
  const std::lock_guard lock(mutex);
  calls.push_back(function);
  for (auto failure = failures.begin(); failure != failures.end(); ++failure) {
    if (!failure->symbol.empty() && failure->symbol != symbol_of(function)) continue;
    if (--failure->left != 0) continue;
    const Failure now = std::move(*failure);
    failures.erase(failure);
    const char* below = fake == nullptr ? nullptr : driver_call(function);
    if (below == nullptr) return now.result;
    fake->fail(below, 1, now.result, now.lasting);
    break;
  }
  return function == Function::init || started ? hipSuccess : hipErrorNotInitialized;
}

hipError_t Forward::context_of(int device, cuda::CUcontext& context) {
  const std::lock_guard lock(mutex);
  cuda::CUcontext& known = contexts[device];
  if (known == nullptr) {
    if (const auto result = cu.device_primary_ctx_retain(&known, device); result != cuda::CUDA_SUCCESS) {
      contexts.erase(device);
      return from_cuda(result);
    }
  }
  context = known;
  return hipSuccess;
}

Entered::Entered() : result_(hipSuccess) {
  Forward& forward = Forward::get();
  cuda::CUcontext context = nullptr;
  result_ = forward.context_of(current_device(), context);
  if (result_ == hipSuccess) result_ = from_cuda(forward.cu.ctx_push_current(context));
  pushed_ = result_ == hipSuccess;
}

Entered::~Entered() {
  cuda::CUcontext popped = nullptr;
  if (pushed_) static_cast<void>(Forward::get().cu.ctx_pop_current(&popped));
}

// --- the table --------------------------------------------------------------------------------------------------------

namespace {

void let_go() {
  Forward& forward = Forward::get();
  const std::lock_guard lock(forward.mutex);
  for (const auto& [device, context] : forward.contexts) {
    static_cast<void>(forward.cu.device_primary_ctx_release(device));
  }
  forward.contexts.clear();
}

void reset(const char* driver, const char* target, const char* images) {
  Forward& forward = Forward::get();
  const std::lock_guard lock(forward.mutex);
  forward.driver = driver;
  forward.target = target;
  forward.images = images;
  forward.started = false;
  forward.fake = nullptr;
  forward.contexts.clear();
  forward.calls.clear();
  forward.failures.clear();
  ++forward.epoch;
}

void fail(const char* symbol, std::uint64_t nth, int result, bool lasting) {
  Forward& forward = Forward::get();
  const std::lock_guard lock(forward.mutex);
  forward.failures.push_back({symbol, nth, result, lasting});
}

void fail_no_more() {
  Forward& forward = Forward::get();
  const std::lock_guard lock(forward.mutex);
  forward.failures.clear();
  if (forward.fake != nullptr) forward.fake->fail_no_more();
}

std::uint64_t calls(const char* symbol) {
  Forward& forward = Forward::get();
  const std::lock_guard lock(forward.mutex);
  const std::string wanted = symbol;
  return static_cast<std::uint64_t>(std::count_if(forward.calls.begin(), forward.calls.end(), [&](Function function) {
    return wanted.empty() || wanted == symbol_of(function);
  }));
}

const char* call(std::uint64_t index) {
  Forward& forward = Forward::get();
  const std::lock_guard lock(forward.mutex);
  return index < forward.calls.size() ? symbol_of(forward.calls[index]) : nullptr;
}

int current() {
  return current_device();
}

void set_current(int device) {
  current_device() = device;
}

}  // namespace
}  // namespace kdart::hip_on_cuda

extern "C" {

__attribute__((visibility("default"))) extern const kdart::hip_on_cuda::Control kdart_hip_on_cuda;
const kdart::hip_on_cuda::Control kdart_hip_on_cuda{
    kdart::hip_on_cuda::reset,   kdart::hip_on_cuda::fail,        kdart::hip_on_cuda::fail_no_more,
    kdart::hip_on_cuda::calls,   kdart::hip_on_cuda::call,        kdart::hip_on_cuda::let_go,
    kdart::hip_on_cuda::current, kdart::hip_on_cuda::set_current,
};

// The HIP backend looks for this one, and says what it answers wherever it names the device.
__attribute__((visibility("default"))) const char* kdart_hip_stand_in();
const char* kdart_hip_stand_in() {
  return "a test library of kdart that runs HIP's calls on a CUDA driver";
}
}
