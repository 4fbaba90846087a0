// The table of control.h.
#include "tests/fake_cuda/control.h"

#include <algorithm>
#include <cstdio>

#include "tests/fake_cuda/driver.h"

extern "C" __attribute__((visibility("default"))) const kdart::fake_cuda::Control kdart_fake_cuda;

namespace kdart::fake_cuda {
namespace {

using Lock = std::lock_guard<std::mutex>;

Device& device_at(int device) {
  return Driver::get().devices.at(static_cast<std::size_t>(device));
}

// Runs the body with the books open.
template <class Body>
auto with_books(const Body& body) {
  Driver& driver = Driver::get();
  const Lock lock(driver.mutex);
  return body(driver);
}

void reset() {
  with_books([](Driver& driver) { driver.reset(); });
}

void set_device_count(int count) {
  with_books([&](Driver& driver) { driver.device_count = count; });
}
void set_name(int device, const char* name) {
  with_books([&](Driver&) { device_at(device).name = name; });
}
void set_attribute(int device, int attribute, int value) {
  with_books([&](Driver&) { device_at(device).attributes[attribute] = value; });
}
void forget_attribute(int device, int attribute) {
  with_books([&](Driver&) { device_at(device).attributes.erase(attribute); });
}
void set_total_memory(int device, std::size_t bytes) {
  with_books([&](Driver&) { device_at(device).total = bytes; });
}
void set_driver_version(int version) {
  with_books([&](Driver& driver) { driver.version = version; });
}
void set_function(const char* symbol, unsigned int max_threads, unsigned int static_shared_bytes) {
  with_books([&](Driver& driver) {
    driver.facts[symbol].max_threads = max_threads;
    driver.facts[symbol].static_shared = static_shared_bytes;
  });
}
void add_parameter(const char* symbol, std::size_t offset, std::size_t bytes) {
  with_books([&](Driver& driver) { driver.facts[symbol].parameters.emplace_back(offset, bytes); });
}

void answer_all(int result) {
  with_books([&](Driver& driver) { driver.answer = result; });
}
void fail(const char* symbol, std::uint64_t nth, int result, bool lasting) {
  with_books([&](Driver& driver) { driver.injected.push_back({symbol, nth, result, lasting}); });
}
void fail_no_more() {
  with_books([](Driver& driver) {
    driver.injected.clear();
    driver.faulting_kernels.clear();
  });
}
void fault_at(const char* kernel, int result) {
  with_books([&](Driver& driver) { driver.faulting_kernels.emplace_back(kernel, result); });
}
void refuse_image(int result, const char* log) {
  with_books([&](Driver& driver) {
    driver.image_result = result;
    driver.image_log = log;
  });
}
void refuse_function(const char* symbol) {
  with_books([&](Driver& driver) { driver.refused_functions.insert(symbol); });
}
std::size_t text_length() {
  return with_books([](Driver& driver) { return driver.text_length; });
}
void close_pools(bool exact) {
  with_books([&](Driver& driver) { driver.exact_pools = exact; });
}

void hold() {
  with_books([](Driver& driver) { driver.held = true; });
}
void go() {
  with_books([](Driver& driver) {
    driver.held = false;
    driver.moved.notify_all();
  });
}
void run_all() {
  with_books([](Driver& driver) { driver.run_everything(); });
}
void not_ready(unsigned int asks) {
  with_books([&](Driver& driver) { driver.not_ready = asks; });
}

std::uint64_t calls(const char* symbol) {
  return with_books([&](Driver& driver) {
    const std::string_view wanted = symbol;
    return static_cast<std::uint64_t>(std::count_if(driver.calls.begin(), driver.calls.end(), [&](Function function) {
      return wanted.empty() || wanted == symbol_of(function);
    }));
  });
}
const char* call(std::uint64_t index) {
  return with_books(
      [&](Driver& driver) { return index < driver.calls.size() ? symbol_of(driver.calls[index]) : nullptr; });
}
std::uint64_t launches() {
  return with_books([](Driver& driver) { return std::uint64_t{driver.launches.size()}; });
}
bool launch(std::uint64_t index, Launch* launch) {
  return with_books([&](Driver& driver) {
    if (index >= driver.launches.size()) return false;
    *launch = driver.launches[index].launch;
    return true;
  });
}

template <class T>
void tell(const Table<T>& table, const Driver& driver, const char* what, std::vector<std::string>& lines) {
  for (const auto& [handle, object] : table.alive) {
    if (!driver.excused.contains(handle)) lines.emplace_back(what);
  }
}

// What is alive, and was not to be released by a call that failed.
std::vector<std::string> live_objects(const Driver& driver) {
  std::vector<std::string> lines;
  for (const Device& device : driver.devices) {
    if (device.primary != nullptr && !driver.excused.contains(device.primary.get()))
      lines.push_back("a primary context, retained " + std::to_string(device.retains) + " times");
  }
  tell(driver.streams, driver, "a stream", lines);
  tell(driver.events, driver, "an event", lines);
  tell(driver.graphs, driver, "a graph", lines);
  tell(driver.executables, driver, "an executable graph", lines);
  tell(driver.modules, driver, "a module", lines);
  tell(driver.pools, driver, "a memory pool", lines);
  for (const auto& [address, block] : driver.memory) {
    if (!block.freed && !driver.excused.contains(reinterpret_cast<const void*>(address)))
      lines.push_back("an allocation of " + std::to_string(block.bytes) + " bytes");
  }
  for (const auto& [address, bytes] : driver.pinned) {
    if (!driver.excused.contains(address)) lines.push_back("page-locked memory of " + std::to_string(bytes) + " bytes");
  }
  for (const auto& [handle, stream] : driver.streams.alive) {
    if (stream->capture != nullptr) lines.emplace_back("a capture");
  }
  return lines;
}

void live(Text text, void* user) {
  const auto lines = with_books([](Driver& driver) { return live_objects(driver); });
  for (const std::string& line : lines) text(user, line.c_str());
}
void violations(Text text, void* user) {
  const auto lines = with_books([](Driver& driver) { return driver.violations; });
  for (const std::string& line : lines) text(user, line.c_str());
}
int retains(int device) {
  return with_books([&](Driver&) { return device_at(device).retains; });
}

// --- another user of CUDA ---------------------------------------------------------------------------------------------

void* create_context(int device) {
  return with_books([&](Driver& driver) -> void* { return driver.make_context(device).get(); });
}
void destroy_context(void* context) {
  with_books([&](Driver& driver) {
    driver.run_everything();
    if (const auto found = driver.contexts.find(context); found != nullptr) driver.end_context(found);
  });
}
void* create_stream(void* context, unsigned int flags) {
  return with_books([&](Driver& driver) -> void* {
    const auto stream = driver.streams.make();
    stream->context = static_cast<Context*>(context);
    stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    driver.excused.insert(stream.get());
    return stream.get();
  });
}
void destroy_stream(void* handle) {
  with_books([&](Driver& driver) {
    const auto stream = driver.streams.find(handle);
    if (stream == nullptr) return;
    driver.run(*stream);
    driver.streams.end(stream);
  });
}
void push(void* context) {
  with_books([&](Driver&) { stack().push_back(static_cast<Context*>(context)); });
}
void pop() {
  with_books([](Driver&) {
    if (!stack().empty()) stack().pop_back();
  });
}
void* current() {
  return with_books([](Driver&) -> void* { return stack().empty() ? nullptr : stack().back(); });
}
std::size_t depth() {
  return with_books([](Driver&) { return stack().size(); });
}
void register_host(const void* memory, std::size_t bytes) {
  with_books([&](Driver& driver) { driver.registered[static_cast<const std::byte*>(memory)] = bytes; });
}
void unregister_host(const void* memory) {
  with_books([&](Driver& driver) { driver.registered.erase(static_cast<const std::byte*>(memory)); });
}

}  // namespace
}  // namespace kdart::fake_cuda

namespace fake = kdart::fake_cuda;

const fake::Control kdart_fake_cuda{
    fake::reset,
    fake::set_device_count,
    fake::set_name,
    fake::set_attribute,
    fake::forget_attribute,
    fake::set_total_memory,
    fake::set_driver_version,
    fake::set_function,
    fake::add_parameter,
    fake::answer_all,
    fake::fail,
    fake::fail_no_more,
    fake::fault_at,
    fake::refuse_image,
    fake::refuse_function,
    fake::text_length,
    fake::close_pools,
    fake::hold,
    fake::go,
    fake::run_all,
    fake::not_ready,
    fake::calls,
    fake::call,
    fake::launches,
    fake::launch,
    fake::live,
    fake::violations,
    fake::retains,
    fake::create_context,
    fake::destroy_context,
    fake::create_stream,
    fake::destroy_stream,
    fake::push,
    fake::pop,
    fake::current,
    fake::depth,
    fake::register_host,
    fake::unregister_host,
};
