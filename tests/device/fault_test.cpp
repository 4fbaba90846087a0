// What a kernel that does something illegal does to its process: always in a child, which reports on lines of its own.
#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/child.h"
#include "tests/support/test_device.h"

namespace kdart::test {
namespace {

enum class Fault { low_address, unmapped_address, trap };

// An address that nothing in this process can have: reserved, and closed to everyone.
std::uint64_t unmapped_address() {
  static void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(page != MAP_FAILED);
  return reinterpret_cast<std::uintptr_t>(page) + 16;
}

void launch(const TestDevice& device, Fault fault, Stream stream) {
  if (fault == Fault::trap) {
    KernelLaunch(*device.gpu, device["trap"]).args(kernels::TrapArgs{.armed = 1}).launch(stream);
    return;
  }
  const std::uint64_t address = fault == Fault::low_address ? 0x10 : unmapped_address();
  KernelLaunch(*device.gpu, device["wild"]).args(kernels::WildArgs{.address = address, .value = 1}).launch(stream);
}

// --- the child

// One line of the report, in one piece.
void report(std::string_view key, std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const std::string line = "child " + std::string(key) + ": " + text + "\n";
  REQUIRE(std::fputs(line.c_str(), stdout) >= 0);
  REQUIRE(std::fflush(stdout) == 0);
}

// "code, message" of what the call throws.
std::string outcome(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ", " + error.what();
  }
  return "nothing was thrown";
}

// Calls of every group, after the fault.
void report_later_calls(const TestDevice& device, Stream used, Stream other, const Buffer& buffer) {
  GpuBackend& gpu = *device.gpu;
  std::uint32_t word = 0;
  const std::function<void()> calls[]{
      [&] { gpu.synchronize(used); },
      [&] { gpu.synchronize(other); },
      [&] { static_cast<void>(gpu.alloc(64)); },
      [&] { gpu.copy_h2d(buffer.get(), &word, 4); },
      [&] { gpu.fill(buffer.get(), 1, 4, 1, other); },
      [&] { static_cast<void>(gpu.create_stream()); },
      [&] { static_cast<void>(gpu.load(TestKernels::of(gpu.info().backend).make())); },
      [&] { device.affine(buffer, 1, 1, other); },
  };
  for (const auto& call : calls) report("later", outcome(call));
}

void run_into(Fault fault) {
  {
    const TestDevice device;
    const OwnedStream stream(device.gpu);
    const OwnedStream other(device.gpu);
    const OwnedEvent event(device.gpu);
    const PinnedBuffer pinned(device.gpu, 64);
    const Buffer buffer = device.upload(std::vector<std::uint32_t>(16, 1));
    device.affine(buffer, 2, 1, other.get());
    device.gpu->synchronize(other.get());
    report("launch", outcome([&] { launch(device, fault, stream.get()); }));
    report("fault", outcome([&] { device.gpu->synchronize(stream.get()); }));
    report_later_calls(device, stream.get(), other.get(), buffer);
  }
  report("end", "destroyed");
}

// With work of another kernel under way on another stream, given to the device as a graph, for which nobody waits.
void run_into_synchronously(Fault fault) {
  {
    OpenOptions options = device_options();
    options.synchronous_launches = true;
    const TestDevice device(options);
    const OwnedStream stream(device.gpu);
    const OwnedStream busy(device.gpu);
    const OwnedEvent event(device.gpu);
    const Buffer buffer = device.upload(std::vector<std::uint32_t>(16, 1));
    device.spin(busy.get(), 1);  // measures, outside the capture
    device.gpu->begin_capture(busy.get());
    device.spin(busy.get(), 300);
    const OwnedGraph graph(device.gpu, device.gpu->end_capture(busy.get()));
    device.affine(buffer, 2, 1, stream.get());
    device.gpu->launch_graph(graph.get(), busy.get());
    device.gpu->record(event.get(), busy.get());
    report("busy", device.gpu->query(event.get()) ? "no" : "yes");
    report("fault", outcome([&] { launch(device, fault, stream.get()); }));
    report_later_calls(device, stream.get(), busy.get(), buffer);
  }
  report("end", "destroyed");
}

// --- the parent

// What the child reported under `key`.
std::vector<std::string> reported(const ChildResult& child, std::string_view key) {
  const std::string start = "child " + std::string(key) + ": ";
  std::vector<std::string> found;
  for (std::size_t at = child.output.find(start); at != std::string::npos; at = child.output.find(start, at)) {
    at += start.size();
    found.push_back(child.output.substr(at, child.output.find('\n', at) - at));
  }
  return found;
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

void skip_unless_isolated(const TestDevice& device) {
  const std::vector<std::string>& features = device.gpu->info().features;
  if (std::find(features.begin(), features.end(), "fault_isolation_none") != features.end())
    SKIP("a fault of a kernel on " << device.gpu->info().id << " is one of its process: fault_isolation_none");
  for (const char* kernel : {"wild", "trap"}) {
    if (!device.kernels->find(kernel))
      SKIP("the test kernels for " << device.gpu->info().backend << " have no kernel '" << kernel << "'");
  }
}

// The fault has its code, names its kernel, is told by every later call, and the process ends as any other.
void check_child(const ChildResult& child, const std::string& kernel, std::size_t later_calls) {
  INFO(child.output);
  CHECK(child.code == 0);
  CHECK(child.signal == 0);
  CHECK(reported(child, "end") == std::vector<std::string>{"destroyed"});
  const std::vector<std::string> fault = reported(child, "fault");
  REQUIRE(fault.size() == 1);
  CHECK(fault[0].starts_with("device_fault, "));
  CHECK(contains(fault[0], "kernel '" + kernel + "'"));
  const std::vector<std::string> later = reported(child, "later");
  CHECK(later.size() == later_calls);
  for (const std::string& call : later) CHECK(call == fault[0]);
}

void check_canaries(const TestDevice& device) {
  CHECK(device.canary());
  CHECK(TestDevice().canary());
  const ChildResult child = run_test_case("child process runs a canary");
  INFO(child.output);
  CHECK(child.code == 0);
}

constexpr std::size_t later_calls = 8;

}  // namespace

TEST_CASE("child process stores to a low address", "[.child]") {
  run_into(Fault::low_address);
}
TEST_CASE("child process stores to an unmapped address", "[.child]") {
  run_into(Fault::unmapped_address);
}
TEST_CASE("child process runs into a trap", "[.child]") {
  run_into(Fault::trap);
}
TEST_CASE("child process stores to a low address with synchronous launches", "[.child]") {
  run_into_synchronously(Fault::low_address);
}
TEST_CASE("child process runs into a trap with synchronous launches", "[.child]") {
  run_into_synchronously(Fault::trap);
}
TEST_CASE("child process runs a canary", "[.child]") {
  CHECK(TestDevice().canary());
}

TEST_CASE("a fault is told with its kernel and ends the device but not the process", "[device][fault]") {
  const TestDevice device;
  skip_unless_isolated(device);
  struct Case {
    const char* child;
    const char* kernel;
  };
  for (const Case& run :
       {Case{"child process stores to a low address", "wild"},
        Case{"child process stores to an unmapped address", "wild"}, Case{"child process runs into a trap", "trap"}}) {
    const ChildResult child = run_test_case(run.child);
    check_child(child, run.kernel, later_calls);
    CHECK(reported(child, "launch") == std::vector<std::string>{"nothing was thrown"});
    check_canaries(device);
  }
}

TEST_CASE("a synchronous launch throws its own fault and names its kernel alone", "[device][fault]") {
  const TestDevice device;
  skip_unless_isolated(device);
  struct Case {
    const char* child;
    const char* kernel;
  };
  for (const Case& run : {Case{"child process stores to a low address with synchronous launches", "wild"},
                          Case{"child process runs into a trap with synchronous launches", "trap"}}) {
    const ChildResult child = run_test_case(run.child);
    check_child(child, run.kernel, later_calls);
    INFO(child.output);
    CHECK(reported(child, "busy") == std::vector<std::string>{"yes"});
    for (const std::string& fault : reported(child, "fault")) CHECK_FALSE(contains(fault, "spin"));
    check_canaries(device);
  }
}

TEST_CASE("what a fault test launches does no harm when it is not armed", "[device][fault]") {
  const TestDevice device;
  if (!device.kernels->find("wild") || !device.kernels->find("trap"))
    SKIP("the test kernels for " << device.gpu->info().backend << " have none that run wild");
  const OwnedStream stream(device.gpu);
  const Buffer word = device.upload(std::vector<std::uint32_t>(1, 5));
  KernelLaunch(*device.gpu, device["trap"]).args(kernels::TrapArgs{.armed = 0}).launch(stream.get());
  KernelLaunch(*device.gpu, device["wild"])
      .args(kernels::WildArgs{.address = word.get().address(), .value = 77})
      .launch(stream.get());
  device.gpu->synchronize(stream.get());
  CHECK(device.download(word) == std::vector<std::uint32_t>(1, 77));
}

}  // namespace kdart::test
