#include "tests/unit/common/sweep.h"

#include <catch2/catch_test_macros.hpp>
#include <optional>

#include "tests/unit/common/walk.h"

namespace kdart::test {
namespace {

// Steps that throw nothing: they put what fails into the log.
bool is_quiet(std::string_view step) {
  return step == "unload" || step == "close";
}

// The ends of things enter the context a second time when the first fails.
bool is_made_again(const SweepRules& rules, std::string_view symbol, std::string_view step) {
  return rules.entering.contains(symbol) && (step == "end_capture" || step == "what no capture holds");
}

bool may_pass_unseen(const SweepRules& rules, std::string_view symbol, int result) {
  return rules.unseen.contains(symbol) || (symbol == rules.pool_allocation && result == 2);
}

ErrorCode fitting(const SweepRules& rules, std::string_view symbol, int result) {
  return symbol == rules.host_allocation && result == 2 ? ErrorCode::out_of_host_memory : rules.code_of(result);
}

constexpr std::uint64_t never = ~std::uint64_t{0};

struct Outcome {
  std::optional<Error> error;
  std::string step;    // the last, or the one in which the nth call of the driver came
  bool moved = false;  // a step left another context current
};

// Walks until a step throws.
Outcome walk_until_error(const FakeDriver& fake, Walk& walk, std::uint64_t n) {
  Outcome outcome;
  for (const Walk::Step& step : walk.steps()) {
    const FakeDriver::Place place = fake.place();
    if (fake.call_count() < n) outcome.step = step.name;
    try {
      step.run();
    } catch (const Error& error) {
      outcome.error = error;
    }
    outcome.moved = outcome.moved || fake.place() != place;
    fake.go_back_to(place);
    if (outcome.error) break;
  }
  return outcome;
}

std::uint64_t calls_of_a_walk(const SweepRules& rules) {
  const auto made = rules.make();
  const FakeDriver& fake = *made;
  Walk walk(fake);
  const Outcome outcome = walk_until_error(fake, walk, never);
  INFO(outcome.step << (outcome.error ? std::string(": ") + outcome.error->what() : std::string()));
  REQUIRE(!outcome.error);
  CHECK(!outcome.moved);
  CHECK(outcome.step == "close");
  KDART_CHECK_CLEAN(fake);
  return fake.call_count();
}

// A device that has told of a fault repeats that; another works.
void check_afterwards(const FakeDriver& fake, const std::shared_ptr<GpuBackend>& gpu, const Outcome& outcome) {
  if (!outcome.error || !is_sticky(outcome.error->code())) return canary(fake, gpu);
  try {
    static_cast<void>(gpu->create_stream());
    FAIL_CHECK("a finished device made a stream");
  } catch (const Error& error) {
    CHECK(error.code() == outcome.error->code());
  }
}

// One walk in which the nth call fails. Returns whether the caller was told.
bool walk_with_failure(const SweepRules& rules, std::uint64_t n, int result, bool lasting) {
  const auto made = rules.make();
  const FakeDriver& fake = *made;
  fake.fail_nth(n, result, lasting);
  Walk walk(fake);
  const Outcome outcome = walk_until_error(fake, walk, n);
  REQUIRE(fake.call_at(n - 1) != nullptr);
  const std::string symbol = fake.call_at(n - 1);
  INFO("call " << n << ", " << symbol << ", answers " << result << (lasting ? " from then on" : "") << " in step "
               << outcome.step << (outcome.error ? std::string(": ") + outcome.error->what() : std::string()));
  if (outcome.error) {
    CHECK(to_string(outcome.error->code()) == to_string(fitting(rules, symbol, result)));
    CHECK(outcome.error->native_code() == result);
    CHECK(std::string(outcome.error->what()).find(std::to_string(result)) != std::string::npos);
  } else if (!lasting) {
    // A stream is destroyed on a finished device too, and the next call tells of that.
    const bool finished = outcome.step == "destroy_stream" && is_sticky(fitting(rules, symbol, result));
    CHECK((may_pass_unseen(rules, symbol, result) || is_quiet(outcome.step) || finished ||
           is_made_again(rules, symbol, outcome.step)));
  }
  CHECK((!outcome.moved || symbol == rules.leaving));
  fake.fail_no_more();
  if (walk.gpu() != nullptr && (!lasting || outcome.error)) check_afterwards(fake, walk.gpu(), outcome);
  walk.drop();
  KDART_CHECK_CLEAN(fake);
  return outcome.error.has_value();
}

}  // namespace

void sweep(const SweepRules& rules, int result, bool lasting) {
  const std::uint64_t calls = calls_of_a_walk(rules);
  REQUIRE(calls > 200);
  std::uint64_t told = 0;
  for (std::uint64_t n = 1; n <= calls; ++n) told += walk_with_failure(rules, n, result, lasting) ? 1U : 0U;
  CHECK(told > calls / 2);
}

void sweep_shut_down(const SweepRules& rules) {
  const std::size_t steps = Walk(*rules.make()).steps().size();
  for (std::size_t n = 1; n < steps; ++n) {
    const auto fake = rules.make();
    Walk walk(*fake);
    const auto all = walk.steps();
    for (std::size_t i = 0; i < n; ++i) all[i].run();
    fake->shut_down();
    INFO("after step " << all[n - 1].name);
    walk.drop();
    CHECK(fake->violations() == nothing());
  }
}

}  // namespace kdart::test
