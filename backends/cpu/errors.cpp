#include "backends/cpu/errors.h"
#include "core/runtime/format.h"

#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace kdart::cpu {

Error os_error(ErrorCode code, std::string_view what, int error_number) {
  const std::string text = std::generic_category().message(error_number);
  return Error(code, detail::format("{}: {} (errno {})", what, text, error_number), error_number, text);
}

Error current_error(std::string_view doing) {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error(ErrorCode::out_of_host_memory, detail::format("{}: out of host memory", doing));
  } catch (const std::system_error& error) {
    return os_error(ErrorCode::out_of_host_memory, doing, error.code().value());
  } catch (const std::exception& error) {
    return Error(ErrorCode::driver_error, detail::format("{}: {}", doing, error.what()));
  } catch (...) {
    return Error(ErrorCode::driver_error, detail::format("{}: an exception of unknown type", doing));
  }
}

}  // namespace kdart::cpu
