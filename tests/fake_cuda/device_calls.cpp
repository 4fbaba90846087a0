// The driver, its devices and contexts.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tests/fake_cuda/driver.h"

namespace kdart::fake_cuda {
namespace {

Device* device_at(Driver& driver, CUdevice device) {
  return device >= 0 && device < driver.device_count ? &driver.devices[static_cast<std::size_t>(device)] : nullptr;
}

CUcontext handle_of(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}

}  // namespace

CUresult entry::init(unsigned int flags) {
  KDART_FAKE_CALL(init);
  if (driver.started_by != 0 && driver.started_by != getpid()) return CUDA_ERROR_NOT_INITIALIZED;  // a fork
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (driver.device_count == 0) return CUDA_ERROR_NO_DEVICE;
  driver.started_by = getpid();
  return CUDA_SUCCESS;
}

CUresult entry::driver_get_version(int* version) {
  KDART_FAKE_CALL(driver_get_version);
  *version = driver.version;
  return CUDA_SUCCESS;
}

CUresult entry::device_get_count(int* count) {
  KDART_FAKE_CALL(device_get_count);
  *count = driver.device_count;
  return CUDA_SUCCESS;
}

CUresult entry::device_get(CUdevice* device, int index) {
  KDART_FAKE_CALL(device_get);
  if (device_at(driver, index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *device = index;
  return CUDA_SUCCESS;
}

CUresult entry::device_get_name(char* name, int bytes, CUdevice device) {
  KDART_FAKE_CALL(device_get_name);
  const Device* found = device_at(driver, device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  static_cast<void>(std::snprintf(name, static_cast<std::size_t>(bytes), "%s", found->name.c_str()));
  return CUDA_SUCCESS;
}

CUresult entry::device_get_uuid(CUuuid* uuid, CUdevice device) {
  KDART_FAKE_CALL(device_get_uuid);
  if (device_at(driver, device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0xf0 + i);
  uuid->bytes[0] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult entry::device_total_mem(std::size_t* bytes, CUdevice device) {
  KDART_FAKE_CALL(device_total_mem);
  const Device* found = device_at(driver, device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = found->total;
  return CUDA_SUCCESS;
}

CUresult entry::device_get_attribute(int* value, int attribute, CUdevice device) {
  KDART_FAKE_CALL(device_get_attribute);
  const Device* found = device_at(driver, device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const auto entry = found->attributes.find(attribute);
  if (entry == found->attributes.end()) return CUDA_ERROR_INVALID_VALUE;
  *value = entry->second;
  return CUDA_SUCCESS;
}

CUresult entry::device_get_pci_bus_id(char* text, int bytes, CUdevice device) {
  KDART_FAKE_CALL(device_get_pci_bus_id);
  if (device_at(driver, device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  static_cast<void>(std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02X:00.0", 0xa0 + device));
  return CUDA_SUCCESS;
}

// --- contexts ---------------------------------------------------------------------------------------------------------

CUresult entry::device_primary_ctx_retain(CUcontext* context, CUdevice device) {
  KDART_FAKE_CALL(device_primary_ctx_retain);
  Device* found = device_at(driver, device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (found->attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_MODE] == CU_COMPUTEMODE_PROHIBITED)
    return CUDA_ERROR_DEVICE_UNAVAILABLE;
  if (found->primary == nullptr) found->primary = driver.make_context(device);
  ++found->retains;
  *context = handle_of(found->primary.get());
  return CUDA_SUCCESS;
}

CUresult entry::device_primary_ctx_release(CUdevice device) {
  Call call(Function::device_primary_ctx_release);
  Driver& driver = call.driver();
  Device* found = device_at(driver, device);
  if (call.refused()) {
    if (found != nullptr && found->primary != nullptr) driver.excused.insert(found->primary.get());
    return call.result();
  }
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (found->retains == 0) return call.violation(CUDA_ERROR_INVALID_CONTEXT, "of a context that nobody retains");
  if (--found->retains > 0) return CUDA_SUCCESS;
  driver.run_everything();
  driver.end_context(std::exchange(found->primary, nullptr));
  return CUDA_SUCCESS;
}

CUresult entry::ctx_get_current(CUcontext* context) {
  KDART_FAKE_CALL(ctx_get_current);
  *context = stack().empty() ? nullptr : handle_of(stack().back());
  return CUDA_SUCCESS;
}

CUresult entry::ctx_push_current(CUcontext context) {
  KDART_FAKE_CALL(ctx_push_current);
  const auto found = driver.contexts.find(context);
  if (found == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stack().push_back(found.get());
  return CUDA_SUCCESS;
}

CUresult entry::ctx_pop_current(CUcontext* context) {
  KDART_FAKE_CALL(ctx_pop_current);
  if (stack().empty()) return call.violation(CUDA_ERROR_INVALID_CONTEXT, "from an empty stack");
  *context = handle_of(stack().back());
  stack().pop_back();
  return CUDA_SUCCESS;
}

CUresult entry::ctx_get_device(CUdevice* device) {
  KDART_FAKE_CALL(ctx_get_device);
  *device = call.context().device;
  return CUDA_SUCCESS;
}

}  // namespace kdart::fake_cuda
