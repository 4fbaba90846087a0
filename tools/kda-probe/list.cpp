#include "commands.h"
#include "exit_codes.h"
#include "kernel_sets.h"

namespace kdart::probe {

ListResult run_list(const ListOptions& options) {
  check_kernel_set(options.kernel_set);
  return {during(Stage::opening_device, [] { return list_backends(); })};
}

}  // namespace kdart::probe
