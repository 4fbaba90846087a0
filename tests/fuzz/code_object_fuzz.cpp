// A code object, and an offload bundle: any bytes give what they state, from within them, or invalid_image.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <vector>

#include "backends/hip/code_object.h"
#include "core/runtime/amd_target.h"
#include "kdart/error.h"

namespace {

using kdart::ErrorCode;

void require(bool good) {
  if (!good) std::abort();
}

// Whether it reads without a refusal; a refusal is one of these, and short.
template <class Read>
bool reads(const Read& read) {
  try {
    read();
    return true;
  } catch (const kdart::Error& error) {
    require(error.code() == ErrorCode::invalid_image || error.code() == ErrorCode::no_matching_image);
    require(std::string_view(error.what()).size() <= 2000);
    return false;
  }
}

void check(const kdart::hip::CodeObject& object) {
  require(!object.kernels.empty() && object.version >= 4 && object.version <= 6);
  require(kdart::detail::parse_amd_target(object.target).has_value());
  for (const kdart::hip::CodeObjectKernel& kernel : object.kernels) {
    require(object.find(kernel.symbol) == &kernel);
    require(kernel.wave_size == 32 || kernel.wave_size == 64);
    std::uint64_t end = 0;
    for (const kdart::hip::CodeObjectArgument& argument : kernel.arguments) {
      require(argument.offset >= end);
      end = std::uint64_t{argument.offset} + argument.size;
    }
    require(end <= kernel.kernarg_bytes);
  }
  kdart::hip::check_target(object, "gfx90a:sramecc+:xnack-", "fuzzed");
}

bool within(std::span<const std::byte> part, std::span<const std::byte> whole) {
  return part.data() >= whole.data() && part.size() <= whole.size() &&
         static_cast<std::size_t>(part.data() - whole.data()) <= whole.size() - part.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  static_cast<void>(reads([&] { check(kdart::hip::read_code_object(bytes, "fuzzed")); }));
  static_cast<void>(reads([&] {
    for (const kdart::hip::BundleEntry& entry : kdart::hip::read_bundle(bytes, "fuzzed")) {
      require(within(entry.bytes, bytes) && kdart::detail::parse_amd_target(entry.target).has_value());
    }
  }));
  static_cast<void>(reads([&] {
    const auto found = kdart::hip::find_code_object(bytes, "gfx90a:sramecc+:xnack-", "fuzzed");
    require(within(found, bytes));
    check(kdart::hip::read_code_object(found, "fuzzed"));
  }));
  return 0;
}
