// What the entry points share: the CUDA driver below, its contexts, and the calls that are to fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "backends/cuda/api.h"
#include "backends/hip/api.h"
#include "tests/fake_cuda/control.h"
#include "tests/hip_on_cuda/control.h"

namespace kdart::hip_on_cuda {

using namespace hip;  // NOLINT: the runtime's own names

// Declared from the backend's own list: an entry point that is added there and missing here leaves an undefined symbol.
namespace entry {
#define KDART_FORWARD_DECLARE(member, symbol, parameters) \
  __attribute__((visibility("default"))) hipError_t member parameters __asm__(symbol);
KDART_HIP_FUNCTIONS(KDART_FORWARD_DECLARE)
KDART_HIP_OPTIONAL_FUNCTIONS(KDART_FORWARD_DECLARE)
#undef KDART_FORWARD_DECLARE
}  // namespace entry

enum class Function : std::size_t {
#define KDART_FORWARD_NUMBER(member, symbol, parameters) member,
  KDART_HIP_FUNCTIONS(KDART_FORWARD_NUMBER) KDART_HIP_OPTIONAL_FUNCTIONS(KDART_FORWARD_NUMBER)
#undef KDART_FORWARD_NUMBER
      count
};

struct Failure {
  std::string symbol;
  std::uint64_t left = 0;
  int result = 0;
  bool lasting = false;
};

class Forward {
 public:
  static Forward& get();

  std::mutex mutex;  // of all but `cu`, which is filled by hipInit
  std::string driver, target, images;
  cuda::Functions cu;
  const fake_cuda::Control* fake = nullptr;  // where the driver is the fake one
  bool started = false;
  std::uint64_t epoch = 0;  // of resets
  std::map<int, cuda::CUcontext> contexts;
  std::vector<Function> calls;
  std::vector<Failure> failures;

  // Opens the driver and starts it.
  [[nodiscard]] hipError_t start();
  // Counts a call, and says how it is to end at once: hipSuccess when it is not.
  [[nodiscard]] hipError_t enter(Function function);
  // The primary context of a device, retained once.
  [[nodiscard]] hipError_t context_of(int device, cuda::CUcontext& context);
};

[[nodiscard]] const char* symbol_of(Function function) noexcept;
// The calling thread's.
[[nodiscard]] int& current_device();
// HIP's number for one of CUDA's: mostly the same.
[[nodiscard]] hipError_t from_cuda(cuda::CUresult result) noexcept;

// The calling thread's device, entered for the time of a call.
class Entered {
 public:
  Entered();
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  [[nodiscard]] hipError_t result() const noexcept { return result_; }

 private:
  hipError_t result_;
  bool pushed_ = false;
};

// Opens the body of an entry point; of one that works in the current device.
#define KDART_FORWARD_CALL(member)                                                              \
  Forward& forward = Forward::get();                                                            \
  if (const hipError_t told = forward.enter(Function::member); told != hipSuccess) return told; \
  [[maybe_unused]] const cuda::Functions& cu = forward.cu
#define KDART_FORWARD_IN_DEVICE(member) \
  KDART_FORWARD_CALL(member);           \
  const Entered entered;                \
  if (entered.result() != hipSuccess) return entered.result()

}  // namespace kdart::hip_on_cuda
