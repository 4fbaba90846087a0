// A cubin, and PTX: any bytes give what they state, from within them, or invalid_image.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "backends/cuda/cubin.h"
#include "kdart/error.h"

namespace {

// Whether it reads without a refusal; a refusal is invalid_image, and short.
template <class Read>
bool reads(const Read& read) {
  try {
    read();
    return true;
  } catch (const kdart::Error& error) {
    if (error.code() != kdart::ErrorCode::invalid_image || std::string_view(error.what()).size() > 2000) std::abort();
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const bool cubin = reads([&] {
    const kdart::cuda::Cubin read = kdart::cuda::read_cubin(bytes, "fuzzed");
    if (read.kernels.empty()) std::abort();
    for (const kdart::cuda::CubinKernel& kernel : read.kernels) {
      if (read.find(kernel.symbol) == nullptr) std::abort();
    }
  });
  const bool ptx = reads([&] { kdart::cuda::check_ptx(bytes, "fuzzed"); });
  if (cubin && ptx) std::abort();  // a cubin has zero bytes in its header
  return 0;
}
