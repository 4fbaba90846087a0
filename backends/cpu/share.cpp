// Memory of the caller: on the CPU every address of the process is a device address already.
#include "backends/cpu/device.h"

namespace kdart::cpu {

DevicePtr CpuBackend::do_import_memory(std::uint64_t native, std::uint64_t) {
  return DevicePtr(native);
}

// The caller may free its memory next, so nothing queued may still use it.
void CpuBackend::do_release_import(DevicePtr) {
  wait_for_all();
}

}  // namespace kdart::cpu
