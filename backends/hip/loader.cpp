#include "backends/hip/loader.h"

#include "backends/common/started.h"
#include "backends/hip/errors.h"
#include "backends/hip/facts.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::hip {
namespace {

common::Started started;

// What a library that is no HIP runtime exports to say so.
constexpr const char* stand_in_symbol = "kdart_hip_stand_in";

[[noreturn]] void fail_start(hipError_t result, const std::string& file) {
  const std::string name = result_name(result);
  const bool no_device = result == hipErrorNoDevice || result == hipErrorInvalidDevice;
  const std::string visible = no_device ? visibility_note() : std::string();
  throw Error(code_of(result),
              detail::format("the HIP runtime {} {} ({}, {}){}{}", detail::quote(file),
                             no_device ? "found no AMD GPU that it may use" : "did not start", name, result,
                             visible.empty() ? "" : "; ", visible),
              result, name);
}

}  // namespace

std::string version_text(int version) {
  return detail::format("HIP {}.{}.{}", version / 10'000'000, version / 100'000 % 100, version % 100'000);
}

std::shared_ptr<const Library> Library::open(const OpenOptions& options) {
  started.refuse_after_fork("the HIP runtime");
  return std::shared_ptr<const Library>(new Library(options));
}

Library::Library(const OpenOptions& options)
    : library_({.what = "the HIP runtime",
                .names = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
                .entry = "hipInit",
                .path = options.driver_path,
                .instead = options.driver_names}) {
  std::string missing;
#define KDART_HIP_LOAD(member, symbol_name, parameters) \
  functions_.member = reinterpret_cast<decltype(functions_.member)>(library_.symbol(symbol_name));
#define KDART_HIP_NEED(member, symbol_name, parameters) \
  KDART_HIP_LOAD(member, symbol_name, parameters)       \
  if (functions_.member == nullptr && missing.empty()) missing = (symbol_name);
  KDART_HIP_FUNCTIONS(KDART_HIP_NEED)
  KDART_HIP_OPTIONAL_FUNCTIONS(KDART_HIP_LOAD)
#undef KDART_HIP_NEED
#undef KDART_HIP_LOAD
  if (functions_.get_properties_r0600 == nullptr && functions_.get_properties_r0000 == nullptr &&
      functions_.get_properties == nullptr && missing.empty())
    missing = "hipGetDeviceProperties";
  if (!missing.empty()) {
    detail::fail(ErrorCode::driver_too_old, "the HIP runtime {} has no {}, which ROCm 5.0 brought",
                 detail::quote(file()), missing);
  }
  if (const auto stand_in = reinterpret_cast<const char* (*)()>(library_.symbol(stand_in_symbol))) {
    stands_in_ = stand_in();
  }
  const hipError_t result = functions_.init(0);
  if (result != hipSuccess) fail_start(result, file());
  check_hip(functions_.runtime_get_version(&version_), "asking for the HIP runtime's version");
  started.note();
}

}  // namespace kdart::hip
