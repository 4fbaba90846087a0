#include "commands.h"
#include "exit_codes.h"
#include "kernel_sets.h"

namespace kdart::probe {
namespace {

// A build without a kernel set for this backend can still say what the device is. A directory that was asked for is
// another matter: its errors are the user's to see.
std::variant<SetChoice, Problem> choice_for(GpuBackend& backend, const KernelSetDirectory& directory) {
  try {
    return choose(*find_kernel_set(backend.info().backend, directory), backend.facts());
  } catch (const Failure& failure) {
    if (directory) throw;
    return Problem{failure.code(), failure.what()};
  }
}

}  // namespace

InfoResult run_info(const InfoOptions& options) {
  const auto backend = during(Stage::opening_device, [&] { return open_device(options.device); });
  return during(Stage::running, [&] {
    return InfoResult{backend->info(), backend->memory_info(), choice_for(*backend, options.kernel_set)};
  });
}

}  // namespace kdart::probe
