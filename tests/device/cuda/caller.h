// Another user of CUDA in the process, with a context, streams and memory of its own. The driver's entry points are declared
// here by hand, as such a user has them, and not taken from the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kdart/device_info.h"
#include "kdart/types.h"

namespace kdart::test {

// Every call fails the test that the driver answers with an error.
class Caller {
 public:
  // Makes a context on the device; it is current nowhere.
  explicit Caller(const DeviceInfo& device);
  // Destroys the context.
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  [[nodiscard]] void* context() const { return context_; }
  // Ends the context's life early.
  void destroy_context();

  // Makes the context current on this thread for a while.
  class Inside {
   public:
    explicit Inside(const Caller& caller);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    const Caller* caller_;
  };

  // The context that is current on the calling thread, null for none.
  [[nodiscard]] void* current() const;
  // How many contexts lie on the calling thread's stack.
  [[nodiscard]] std::size_t depth() const;

  // What follows is done in the context.
  [[nodiscard]] void* create_stream(unsigned flags = 0) const;
  void destroy_stream(void* stream) const;
  void synchronize(void* stream) const;
  [[nodiscard]] std::uint64_t alloc(std::size_t bytes) const;
  void free(std::uint64_t memory) const;
  void fill(std::uint64_t memory, std::uint32_t value, std::size_t words, void* stream) const;
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes, void* stream) const;
  // Waits for the stream.
  [[nodiscard]] std::vector<std::uint32_t> read(std::uint64_t memory, std::size_t words, void* stream) const;
  // `arguments` as a kernel's contract packs them.
  void launch(void* kernel, std::uint32_t grid, std::uint32_t block, std::span<std::byte> arguments,
              void* stream) const;

  // Captures in the relaxed mode; the graph can be launched.
  void begin_capture(void* stream) const;
  [[nodiscard]] void* end_capture(void* stream) const;
  void launch_graph(void* graph, void* stream) const;
  void destroy_graph(void* graph) const;

 private:
  struct Entries {
    int (*ctx_create)(void**, unsigned, int);
    int (*ctx_destroy)(void*);
    int (*ctx_push)(void*);
    int (*ctx_pop)(void**);
    int (*ctx_current)(void**);
    int (*device_get)(int*, int);
    int (*stream_create)(void**, unsigned);
    int (*stream_destroy)(void*);
    int (*stream_synchronize)(void*);
    int (*mem_alloc)(unsigned long long*, std::size_t);
    int (*mem_free)(unsigned long long);
    int (*memset_d32)(unsigned long long, unsigned, std::size_t, void*);
    int (*memcpy_dtod)(unsigned long long, unsigned long long, std::size_t, void*);
    int (*memcpy_dtoh)(void*, unsigned long long, std::size_t, void*);
    int (*launch_kernel)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);
    int (*begin_capture)(void*, int);
    int (*end_capture)(void*, void**);
    int (*graph_instantiate)(void**, void*, unsigned long long);
    int (*graph_destroy)(void*);
    int (*graph_launch)(void*, void*);
    int (*graph_exec_destroy)(void*);
  };

  Entries cu_{};
  void* context_ = nullptr;
};

}  // namespace kdart::test
