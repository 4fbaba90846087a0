// Every driver call of a walk through the whole interface, made to fail in turn.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "tests/support/fake_cuda.h"
#include "tests/unit/cuda/walk.h"

namespace kdart::test {
namespace {

// What may fail without the caller's knowledge: the driver's loss, a matter of comfort, or asked again.
bool may_pass_unseen(std::string_view symbol, int result) {
  static const std::set<std::string_view> unseen{
      "cuDriverGetVersion",     // asked again
      "cuDeviceGetPCIBusId",    // ""
      "cuCtxPopCurrent_v2",     // at the end of a call that is done
      "cuPointerGetAttribute",  // memory that the driver does not know
      "cuStreamEndCapture",     // of a capture that is thrown away
      "cuStreamDestroy_v2",           "cuEventDestroy_v2", "cuGraphDestroy",
      "cuGraphExecDestroy",           "cuModuleUnload",    "cuMemPoolDestroy",
      "cuDevicePrimaryCtxRelease_v2",
  };
  return unseen.contains(symbol) || (symbol == "cuMemAllocFromPoolAsync" && result == 2);
}

// Steps that throw nothing: they put what fails into the log.
bool is_quiet(std::string_view step) {
  return step == "unload" || step == "close";
}

// The ends of things enter the context a second time when the first fails.
bool is_made_again(std::string_view symbol, std::string_view step) {
  return (symbol == "cuCtxGetCurrent" || symbol == "cuCtxPushCurrent_v2") &&
         (step == "end_capture" || step == "what no capture holds");
}

ErrorCode fitting(std::string_view symbol, int result) {
  switch (result) {
    case 2:
      return symbol == "cuMemHostAlloc" ? ErrorCode::out_of_host_memory : ErrorCode::out_of_device_memory;
    case 46:
      return ErrorCode::no_device;
    case 700:
    case 719:
      return ErrorCode::device_fault;
    default:
      return ErrorCode::driver_error;
  }
}

constexpr std::uint64_t never = ~std::uint64_t{0};

struct Outcome {
  std::optional<Error> error;
  std::string step;    // the last, or the one in which the nth call of the driver came
  bool moved = false;  // a step left another context current
};

// Walks until a step throws.
Outcome walk_until_error(const FakeCuda& fake, Walk& walk, std::uint64_t n) {
  Outcome outcome;
  for (const Walk::Step& step : walk.steps()) {
    const void* const current = fake->current();
    const std::size_t depth = fake->depth();
    if (fake.calls() < n) outcome.step = step.name;
    try {
      step.run();
    } catch (const Error& error) {
      outcome.error = error;
    }
    outcome.moved = outcome.moved || fake->current() != current || fake->depth() != depth;
    while (fake->depth() > depth) fake->pop();
    if (outcome.error) break;
  }
  return outcome;
}

std::uint64_t calls_of_a_walk() {
  const FakeCuda fake;
  Walk walk(fake);
  const Outcome outcome = walk_until_error(fake, walk, never);
  INFO(outcome.step << (outcome.error ? std::string(": ") + outcome.error->what() : std::string()));
  REQUIRE(!outcome.error);
  CHECK(!outcome.moved);
  CHECK(outcome.step == "close");
  KDART_CHECK_CLEAN(fake);
  return fake.calls();
}

// A device that has told of a fault repeats that; another works.
void check_afterwards(const FakeCuda& fake, const std::shared_ptr<GpuBackend>& gpu, const Outcome& outcome) {
  if (!outcome.error || !is_sticky(outcome.error->code())) return canary(fake, gpu);
  try {
    static_cast<void>(gpu->create_stream());
    FAIL_CHECK("a finished device made a stream");
  } catch (const Error& error) {
    CHECK(error.code() == outcome.error->code());
  }
}

// One walk in which the nth call fails. Returns whether the caller was told.
bool walk_with_failure(std::uint64_t n, int result, bool lasting) {
  const FakeCuda fake;
  fake->fail("", n, result, lasting);
  Walk walk(fake);
  const Outcome outcome = walk_until_error(fake, walk, n);
  REQUIRE(fake->call(n - 1) != nullptr);
  const std::string symbol = fake->call(n - 1);
  INFO("call " << n << ", " << symbol << ", answers " << result << (lasting ? " from then on" : "") << " in step "
               << outcome.step << (outcome.error ? std::string(": ") + outcome.error->what() : std::string()));
  if (outcome.error) {
    CHECK(to_string(outcome.error->code()) == to_string(fitting(symbol, result)));
    CHECK(outcome.error->native_code() == result);
    CHECK(std::string(outcome.error->what()).find(std::to_string(result)) != std::string::npos);
  } else if (!lasting) {
    // A stream is destroyed on a finished device too, and the next call tells of that.
    const bool finished = outcome.step == "destroy_stream" && is_sticky(fitting(symbol, result));
    CHECK(
        (may_pass_unseen(symbol, result) || is_quiet(outcome.step) || finished || is_made_again(symbol, outcome.step)));
  }
  CHECK((!outcome.moved || symbol == "cuCtxPopCurrent_v2"));
  fake->fail_no_more();
  if (walk.gpu() != nullptr && (!lasting || outcome.error)) check_afterwards(fake, walk.gpu(), outcome);
  walk.drop();
  KDART_CHECK_CLEAN(fake);
  return outcome.error.has_value();
}

void sweep(int result, bool lasting) {
  const std::uint64_t calls = calls_of_a_walk();
  REQUIRE(calls > 200);
  std::uint64_t told = 0;
  for (std::uint64_t n = 1; n <= calls; ++n) told += walk_with_failure(n, result, lasting) ? 1U : 0U;
  CHECK(told > calls / 2);
}

}  // namespace

TEST_CASE("cuda: any driver call may fail once, and the device goes on", "[cuda][no-device]") {
  sweep(GENERATE(2, 46, 999), false);
}

TEST_CASE("cuda: any driver call may report a fault, and the device is finished", "[cuda][no-device]") {
  sweep(GENERATE(700, 719), false);
}

TEST_CASE("cuda: from any driver call on the context may be lost", "[cuda][no-device]") {
  sweep(GENERATE(700, 719), true);
}

TEST_CASE("cuda: the driver may shut down at any call", "[cuda][no-device]") {
  std::size_t steps = 0;
  {
    const FakeCuda fake;
    Walk walk(fake);
    steps = walk.steps().size();
  }
  for (std::size_t n = 1; n < steps; ++n) {
    const FakeCuda fake;
    Walk walk(fake);
    const auto all = walk.steps();
    for (std::size_t i = 0; i < n; ++i) all[i].run();
    fake->answer_all(cuda::CUDA_ERROR_DEINITIALIZED);
    INFO("after step " << all[n - 1].name);
    walk.drop();
    CHECK(fake.violations() == std::vector<std::string>());
  }
}

}  // namespace kdart::test
