// A cubin: any bytes give what they state, from within them, or invalid_image.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "backends/cuda/cubin.h"
#include "kdart/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const kdart::cuda::Cubin cubin = kdart::cuda::read_cubin(std::as_bytes(std::span(data, size)), "fuzzed");
    if (cubin.kernels.empty()) std::abort();
    for (const kdart::cuda::CubinKernel& kernel : cubin.kernels) {
      if (cubin.find(kernel.symbol) == nullptr) std::abort();
    }
  } catch (const kdart::Error& error) {
    if (error.code() != kdart::ErrorCode::invalid_image || std::string_view(error.what()).size() > 2000) std::abort();
  }
  return 0;
}
