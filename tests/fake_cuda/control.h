// How a test tells the fake CUDA driver what to do and asks what was done to it: a table of functions that the library
// exports beside the driver's own. Plain types only, since it is found with dlsym. Any thread may call any of them, none
// counts as a driver call.
//
// The fake keeps books of everything that a driver hands out. Work given to a stream runs when something waits for it or
// asks about it, not before, so what a program does too early or too late shows. Kernels do nothing and are recorded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kdart::fake_cuda {

using Text = void (*)(void* user, const char* text);

struct Launch {
  const char* kernel;
  unsigned int grid[3], block[3];
  unsigned int shared_bytes;
  const void* arguments;  // the packed block; null when none was given
  std::size_t argument_bytes;
  const void* stream;
  unsigned int cluster[3];
  bool dependent;
  bool captured;       // recorded in a capture: it runs when a graph does
  std::uint64_t runs;  // how often it ran
};

struct Control {
  // Everything as it was when the library was opened: one device like an H200, nothing alive, nothing counted.
  void (*reset)();

  // --- what there is
  void (*set_device_count)(int count);  // 0 to 8
  void (*set_name)(int device, const char* name);
  void (*set_attribute)(int device, int attribute, int value);
  void (*forget_attribute)(int device, int attribute);  // an older driver: it answers 1
  void (*set_total_memory)(int device, std::size_t bytes);
  void (*set_driver_version)(int version);
  void (*set_function)(const char* symbol, unsigned int max_threads, unsigned int static_shared_bytes);
  void (*add_parameter)(const char* symbol, std::size_t offset, std::size_t bytes);  // for cuFuncGetParamInfo

  // --- faults
  // Every call answers this (4: a driver that has shut down; 34: the toolkit's stub). 0: no longer.
  void (*answer_all)(int result);
  // The nth call of `symbol` from now, or of any when it is "", answers `result` and does nothing. `lasting`: so do all
  // later calls that need the context, as after a fault.
  void (*fail)(const char* symbol, std::uint64_t nth, int result, bool lasting);
  void (*fail_no_more)();
  // The next run of this kernel ("": of any) is a fault: its context answers `result` from then on.
  void (*fault_at)(const char* kernel, int result);
  void (*refuse_image)(int result, const char* log);  // with text for the caller's log; 0: no longer
  void (*refuse_function)(const char* symbol);        // the image has no such entry point
  std::size_t (*text_length)();                       // of the PTX that was loaded last, up to its NUL
  void (*close_pools)(bool exact);  // freed pool memory serves only allocations of exactly the same size

  // --- pace
  void (*hold)();                        // nothing runs
  void (*go)();                          // and now it does
  void (*run_all)();                     // time passes: everything runs that can
  void (*not_ready)(unsigned int asks);  // so many questions about pending work are answered with 600 first

  // --- what happened
  std::uint64_t (*calls)(const char* symbol);  // since reset; "": of all
  const char* (*call)(std::uint64_t index);    // the symbol of a call; null past the last
  std::uint64_t (*launches)();
  bool (*launch)(std::uint64_t index, Launch* launch);
  // One line for each object alive. A failed call that was to release one is no leak: that one is left out.
  void (*live)(Text text, void* user);
  // One line for each call that a driver would not forgive: objects used when destroyed, modules unloaded while their
  // kernels run, contexts that end with objects in them, ..
  void (*violations)(Text text, void* user);
  int (*retains)(int device);  // of its primary context

  // --- another user of CUDA in the process
  void* (*create_context)(int device);
  void (*destroy_context)(void* context);
  void* (*create_stream)(void* context, unsigned int flags);  // no leak when it stays
  void (*destroy_stream)(void* stream);
  void (*push)(void* context);  // on the calling thread
  void (*pop)();
  void* (*current)();
  std::size_t (*depth)();  // of the calling thread's stack
  void (*register_host)(const void* memory, std::size_t bytes);
  void (*unregister_host)(const void* memory);
};

// The exported symbol of the table.
inline constexpr const char* control_symbol = "kdart_fake_cuda";

}  // namespace kdart::fake_cuda
