// The driver's entry points, declared from the backend's own list: one that is added there and missing here leaves an
// undefined symbol.
#pragma once

#include <cstddef>

#include "backends/cuda/api.h"

namespace kdart::fake_cuda {

using namespace cuda;  // NOLINT: the driver's own names

namespace entry {

#define KDART_FAKE_DECLARE(member, symbol, parameters) \
  __attribute__((visibility("default"))) CUresult member parameters __asm__(symbol);
KDART_CUDA_FUNCTIONS(KDART_FAKE_DECLARE)
KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_FAKE_DECLARE)
#undef KDART_FAKE_DECLARE

}  // namespace entry

enum class Function : std::size_t {
#define KDART_FAKE_NUMBER(member, symbol, parameters) member,
  KDART_CUDA_FUNCTIONS(KDART_FAKE_NUMBER) KDART_CUDA_OPTIONAL_FUNCTIONS(KDART_FAKE_NUMBER)
#undef KDART_FAKE_NUMBER
      count
};

// The driver's symbol.
[[nodiscard]] const char* symbol_of(Function function) noexcept;

}  // namespace kdart::fake_cuda
