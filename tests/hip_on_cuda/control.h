// A stand-in for AMD's HIP runtime, for tests: HIP's entry points on top of a CUDA driver. The driver is a real one, so that
// the HIP backend's host code runs on a real GPU; or the fake one of tests/fake_cuda, so that any call can be made to fail.
//
// It says that each of the driver's devices has a gfx target. hipModuleLoadData gets AMD's real code object, and loads in its
// place one of the images that it was told of: the first that has all of the code object's kernels.
//
// A program sets it up by environment variables, a test by this table, which the library exports beside HIP's calls. Plain
// types only, since it is found with dlsym.
//
//   KDART_HIP_ON_CUDA_DRIVER   the CUDA driver; libcuda.so.1 when it is not set
//   KDART_HIP_ON_CUDA_TARGET   the target; gfx90a:sramecc+:xnack- when it is not set
//   KDART_HIP_ON_CUDA_IMAGES   cubins and PTX, files separated by colons
#pragma once

#include <cstdint>

namespace kdart::hip_on_cuda {

struct Control {
  // As if the library had just been opened, on this driver, with these images. No device may be in use.
  void (*reset)(const char* driver, const char* target, const char* images);
  // The nth call of `symbol` from now, or of any when it is "", answers `result` and does nothing. `lasting`: so do all later
  // calls that need the context, where the driver is the fake one and the call reaches it.
  void (*fail)(const char* symbol, std::uint64_t nth, int result, bool lasting);
  void (*fail_no_more)();
  std::uint64_t (*calls)(const char* symbol);  // since reset; "": of all
  const char* (*call)(std::uint64_t index);    // the symbol of a call; null past the last
  void (*let_go)();                            // of the driver's contexts, which HIP's have no call for
  int (*current)();                            // the calling thread's device
  void (*set_current)(int device);
};

// The exported symbols: of the table, and of what tells that this is no HIP runtime.
inline constexpr const char* control_symbol = "kdart_hip_on_cuda";

}  // namespace kdart::hip_on_cuda
