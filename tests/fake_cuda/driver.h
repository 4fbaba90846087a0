// The fake driver's books, and the frame of every call. control.h says what it is for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/fake_cuda/control.h"
#include "tests/fake_cuda/entry.h"

namespace kdart::fake_cuda {

struct Driver;
struct Stream;
struct Capture;
struct Module;
struct Operation;

using Operations = std::vector<Operation>;

// Something given to a stream, or recorded in a capture.
struct Operation {
  std::function<void(Driver&)> run = {};
  bool books_only = false;  // done even where a fault has stopped the rest
  // What has to be there until it has run.
  const Module* module = nullptr;
  std::pair<const std::byte*, std::size_t> host = {nullptr, 0};
  std::shared_ptr<const Operations> graph = {};
  // Work that must have run before.
  std::shared_ptr<Stream> after = {};
  std::uint64_t after_position = 0;
};

struct Context {
  int device = 0;
  bool alive = true;
  CUresult fault = CUDA_SUCCESS;
  std::shared_ptr<Stream> legacy;
  std::map<std::thread::id, std::shared_ptr<Stream>> per_thread;
};

struct Stream {
  Context* context = nullptr;
  bool blocking = false;  // waits for the legacy stream, as those made without CU_STREAM_NON_BLOCKING do
  bool running = false;   // an operation of it runs now
  std::deque<Operation> pending;
  std::uint64_t done = 0;  // operations; those pending come after
  std::shared_ptr<Capture> capture;
  std::set<std::size_t> frontier;  // the capture's nodes that come before what is given to this stream next

  [[nodiscard]] std::uint64_t given() const noexcept { return done + pending.size(); }
};

struct Event {
  Context* context = nullptr;
  std::shared_ptr<Stream> stream;  // of its latest record; null when there was none
  std::uint64_t position = 0;
  std::uint64_t time = 0;
  std::shared_ptr<Capture> capture;  // its latest record was made in it
  std::set<std::size_t> frontier;
};

struct Capture {
  Stream* origin = nullptr;
  bool relaxed = true;
  bool invalid = false, over = false;
  Operations operations;
  std::vector<std::set<std::size_t>> before;  // of each operation
};

struct Graph {
  std::shared_ptr<const Operations> operations;
};

struct Module {
  Context* context = nullptr;
  std::map<std::string, struct Kernel*> kernels;
};

struct Kernel {
  std::string name;
  Module* module = nullptr;
  unsigned int static_shared = 0, max_threads = 0, max_dynamic = 0;
};

struct Pool {
  int device = 0;
  std::uint64_t threshold = 0, reserved = 0, used = 0;
  std::multiset<std::size_t> free_blocks;
};

struct Memory {
  Context* context = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<Pool> pool;  // null: cuMemAlloc's
  bool freed = false;          // by a stream that has not come to it yet
};

struct Device {
  std::string name = "NVIDIA H200";
  std::size_t total = 0, used = 0;
  std::map<int, int> attributes;
  std::shared_ptr<Context> primary;
  int retains = 0;
};

struct KernelFacts {
  unsigned int max_threads = 1024, static_shared = 0;
  std::vector<std::pair<std::size_t, std::size_t>> parameters;
};

// The objects of one kind that are alive, and those that were: their addresses are given out once.
template <class T>
struct Table {
  std::map<const void*, std::shared_ptr<T>> alive;
  std::vector<std::shared_ptr<T>> dead;

  std::shared_ptr<T> make() {
    auto object = std::make_shared<T>();
    alive.emplace(object.get(), object);
    return object;
  }
  [[nodiscard]] std::shared_ptr<T> find(const void* handle) const {
    const auto found = alive.find(handle);
    return found == alive.end() ? nullptr : found->second;
  }
  void end(const std::shared_ptr<T>& object) {
    if (alive.erase(object.get()) == 1) dead.push_back(object);
  }
};

struct InjectedFault {
  std::string symbol;
  std::uint64_t left = 0;
  CUresult result = CUDA_SUCCESS;
  bool lasting = false;
};

struct Driver {
  static Driver& get();

  std::mutex mutex;
  std::condition_variable moved;

  // --- the machine
  std::uint64_t epoch = 0;  // of resets: a thread's stack from before one is void
  long started_by = 0;      // the process that called cuInit; 0: none
  int version = 13000;
  int device_count = 1;
  std::vector<Device> devices;
  std::map<std::string, KernelFacts, std::less<>> facts;
  bool exact_pools = false;

  // --- objects
  Table<Context> contexts;
  Table<Stream> streams;
  Table<Event> events;
  Table<Graph> graphs, executables;
  Table<Module> modules;
  Table<Kernel> kernels;
  Table<Pool> pools;
  std::map<CUdeviceptr, Memory> memory;
  std::map<const std::byte*, std::size_t> pinned, registered;
  std::set<const void*> excused;  // a call that was to release them was made to fail

  // --- faults
  CUresult answer = CUDA_SUCCESS, lost = CUDA_SUCCESS;
  std::vector<InjectedFault> injected;
  std::vector<std::pair<std::string, CUresult>> faulting_kernels;
  CUresult image_result = CUDA_SUCCESS;
  std::string image_log;
  std::size_t text_length = 0;
  std::set<std::string, std::less<>> refused_functions;

  // --- pace
  bool held = false;
  unsigned int not_ready = 0;
  std::uint64_t clock = 0;

  // --- what happened
  std::vector<Function> calls;
  struct LaunchBook {
    Launch launch{};
    std::string kernel;
    std::vector<std::byte> arguments;
  };
  std::deque<LaunchBook> launches;
  std::vector<std::string> violations;

  void reset();
  void violation(std::string text) { violations.push_back(std::move(text)); }

  std::shared_ptr<Context> make_context(int device);
  void end_context(const std::shared_ptr<Context>& context);

  // Gives the operation to the stream, or to the capture that it is in. CUDA_SUCCESS.
  CUresult give(Stream& stream, Operation operation);
  // Runs what was given to the stream up to a position; false when the driver is held.
  bool run(Stream& stream, std::uint64_t position);
  bool run(Stream& stream) { return run(stream, stream.given()); }
  bool run_everything();
  // Waits for that, until the driver is no longer held; a test that never lets it go is ended.
  template <class Done>
  void wait(std::unique_lock<std::mutex>& lock, const Done& done) {
    if (!moved.wait_for(lock, std::chrono::seconds(30), done)) give_up();
  }
  [[noreturn]] static void give_up();

  // The allocation that holds all of the range; null when there is none.
  [[nodiscard]] Memory* memory_at(CUdeviceptr address, std::size_t bytes);
  void release(CUdeviceptr address);
  static void trim(Device& device, Pool& pool, std::size_t keep);
  [[nodiscard]] bool is_page_locked(const void* where) const;
  // Every operation that has yet to run.
  template <class Visit>
  void each_pending(const Visit& visit) const;
};

// The contexts that are current on the calling thread, innermost last.
[[nodiscard]] std::vector<Context*>& stack();

// Whether work that has yet to run needs this.
[[nodiscard]] bool needs(const Operation& operation, const Module& module);
[[nodiscard]] bool needs(const Operation& operation, const std::byte* host, std::size_t bytes);

template <class Visit>
void Driver::each_pending(const Visit& visit) const {
  const auto look = [&](const Stream& stream) {
    for (const Operation& operation : stream.pending) visit(operation);
  };
  for (const auto& [handle, stream] : streams.alive) look(*stream);
  for (const auto& stream : streams.dead) look(*stream);
  for (const auto& [handle, context] : contexts.alive) {
    look(*context->legacy);
    for (const auto& [thread, stream] : context->per_thread) look(*stream);
  }
}

// One call of the driver: counted, and refused where it was told to fail or has nothing to work on. Holds the lock.
class Call {
 public:
  explicit Call(Function function);
  // A call that releases something. On a faulted context that happens all the same.
  Call(Function function, const void* released);

  // The body is not to run; `result` is the answer.
  [[nodiscard]] bool refused() const noexcept { return refused_; }
  [[nodiscard]] CUresult result() const noexcept { return result_; }
  [[nodiscard]] Driver& driver() const noexcept { return driver_; }
  [[nodiscard]] Context& context() const noexcept { return *context_; }
  [[nodiscard]] Device& device() const { return driver_.devices[static_cast<std::size_t>(context_->device)]; }
  [[nodiscard]] std::unique_lock<std::mutex>& lock() noexcept { return lock_; }

  // What is wrong with this call, on the list of violations; the answer is `result`.
  CUresult violation(CUresult result, std::string_view what) const;
  // The stream of a handle; null, with `result` set, when there is none or it is another context's.
  [[nodiscard]] std::shared_ptr<Stream> stream(CUstream handle, CUresult& result) const;
  // The same for work that may stand in a capture.
  [[nodiscard]] CUresult give(CUstream handle, Operation operation) const;
  // Ends with what the context has come to.
  [[nodiscard]] CUresult finish() const noexcept {
    return context_ == nullptr ? result_ : std::max(result_, context_->fault);
  }

 private:
  void begin(const void* released, bool releases);
  [[nodiscard]] bool take_injected(const void* released, bool releases);

  Driver& driver_;
  std::unique_lock<std::mutex> lock_;
  Function function_;
  Context* context_ = nullptr;
  CUresult result_ = CUDA_SUCCESS;
  bool refused_ = false;
};

// Opens the body of an entry point.
#define KDART_FAKE_CALL(member)             \
  Call call(Function::member);              \
  if (call.refused()) return call.result(); \
  [[maybe_unused]] Driver& driver = call.driver()
#define KDART_FAKE_RELEASE(member, released)                            \
  Call call(Function::member, reinterpret_cast<const void*>(released)); \
  if (call.refused()) return call.result();                             \
  [[maybe_unused]] Driver& driver = call.driver()

}  // namespace kdart::fake_cuda
