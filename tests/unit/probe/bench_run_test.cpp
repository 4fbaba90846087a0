// The benchmark on the CPU and on devices that are wrong in one way.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <limits>

#include "bench_copy.h"
#include "bench_session.h"
#include "commands.h"
#include "kdart/forwarding_backend.h"
#include "kdart/registry.h"
#include "tests/support/fake_backend.h"

namespace kdart::probe {
namespace {

using Catch::Matchers::ContainsSubstring;
using test::FakeBackend;

// Hands everything on but launches, or what it copied in changed a little more each time, or refuses to capture.
class Spoilt final : public ForwardingBackend {
 public:
  enum class Way : std::uint8_t { drops_launches, changes_copies, cannot_capture };
  static std::shared_ptr<Spoilt> over(std::shared_ptr<GpuBackend> inner, Way way) {
    return std::shared_ptr<Spoilt>(new Spoilt(std::move(inner), way));
  }
  ~Spoilt() override { shut_down(); }

 protected:
  void do_launch(Native kernel, const LaunchRecord& record, Native stream) override {
    if (way_ != Way::drops_launches) ForwardingBackend::do_launch(kernel, record, stream);
  }
  void do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) override {
    std::vector<std::uint8_t> changed(bytes);
    std::memcpy(changed.data(), src, bytes);
    if (way_ == Way::changes_copies) changed[0] ^= static_cast<std::uint8_t>(++copies_);  // never to a NaN
    ForwardingBackend::do_copy_h2d(dst, changed.data(), bytes);
  }
  void do_begin_capture(Native stream) override {
    if (way_ == Way::cannot_capture) throw Error(ErrorCode::unsupported, "no capture here");
    ForwardingBackend::do_begin_capture(stream);
  }

 private:
  Spoilt(std::shared_ptr<GpuBackend> inner, Way way) : ForwardingBackend(std::move(inner)), way_(way) {}
  Way way_;
  std::uint32_t copies_ = 0;
};

// A small limit keeps the copies small too.
std::shared_ptr<GpuBackend> cpu(std::uint64_t memory_limit = std::uint64_t{32} << 20) {
  return open_device("cpu:0", {.memory_limit = memory_limit});
}

BenchOptions tiny(Mode mode, std::uint32_t repeats = 2) {
  BenchOptions options;
  options.geometries = geometries({"2", "64", "128"});
  options.modes = {mode};
  options.repeats = repeats;
  return options;
}

TEST_CASE("a call and its replay are timed as often as was asked", "[probe]") {
  BenchOptions options = tiny(Mode::decode, 3);
  options.graph = true;
  const BenchResult result = run_bench(cpu(), options);
  CHECK(result.exit() == ExitCode::ok);
  CHECK(result.copy.bytes_per_second() > 0.0);
  REQUIRE(result.rows.size() == 2);
  CHECK_FALSE(result.rows[0].graph);
  CHECK(result.rows[1].graph);
  for (const BenchRow& row : result.rows) {
    CHECK(row.timing.device_us.size() == 3);
    CHECK(row.timing.wall_us.size() == 3);
    CHECK(smallest(row.timing.device_us) > 0.0);
    CHECK(row.timing.calls_per_sample >= 1);
    CHECK(row.floor_us == floor_us(row.traffic.total(), result.copy.bytes_per_second()));
    CHECK(row.rotation.input_sets % row.rotation.weight_sets == 0);
    CHECK(row.rotation.weight_sets > 1);
  }
}

TEST_CASE("what does not fit names the bytes it needs and those that are free and the rest goes on", "[probe]") {
  BenchOptions options = tiny(Mode::prefill);
  options.tokens = {4, 1U << 20U};
  options.geometries = geometries({"2", "64", "128", "kimi-linear"});
  const BenchResult result = run_bench(cpu(), options);
  REQUIRE(result.rows.size() == 4);
  CHECK_FALSE(result.rows[0].error);
  for (std::size_t i = 1; i < 4; ++i) {
    REQUIRE(result.rows[i].error);
    const BenchRow& row = result.rows[i];
    CHECK(row.error->code == "out_of_device_memory");
    CHECK(row.memory.needed > row.memory.free);
    CHECK_THAT(row.error->message, ContainsSubstring(std::to_string(row.memory.needed)) &&
                                       ContainsSubstring(std::to_string(row.memory.free)));
    CHECK(row.timing.device_us.empty());
  }
  CHECK(result.exit() == ExitCode::fault);
}

TEST_CASE("a wrong result gets no time", "[probe]") {
  const BenchResult result = run_bench(Spoilt::over(cpu(), Spoilt::Way::drops_launches), tiny(Mode::prefill));
  REQUIRE(result.rows.size() == 1);
  REQUIRE(result.rows[0].error);
  CHECK(result.rows[0].error->code == "check_failed");
  CHECK_THAT(result.rows[0].error->message, ContainsSubstring("never written"));
  CHECK(result.rows[0].timing.device_us.empty());
  CHECK(result.exit() == ExitCode::check_failed);
}

TEST_CASE("a result that changes from run to run gets no time", "[probe]") {
  const BenchResult result = run_bench(Spoilt::over(cpu(), Spoilt::Way::changes_copies), tiny(Mode::decode));
  REQUIRE(result.rows.size() == 1);
  REQUIRE(result.rows[0].error);
  CHECK(result.rows[0].error->code == "check_failed");
  CHECK_THAT(result.rows[0].error->message, ContainsSubstring("two runs from the same state differ"));
  CHECK(result.exit() == ExitCode::check_failed);
}

TEST_CASE("a device that cannot capture says so in the row of the graph", "[probe]") {
  BenchOptions options = tiny(Mode::decode);
  options.graph = true;
  const BenchResult result = run_bench(Spoilt::over(cpu(), Spoilt::Way::cannot_capture), options);
  REQUIRE(result.rows.size() == 2);
  CHECK_FALSE(result.rows[0].error);
  REQUIRE(result.rows[1].error);
  CHECK(result.rows[1].error->code == "unsupported");
  CHECK(result.exit() == ExitCode::input);
}

TEST_CASE("a kernel that the layer needs cannot be left out of a benchmark", "[probe]") {
  BenchOptions options = tiny(Mode::decode);
  options.without = {"recurrent"};
  CHECK_THROWS_AS(run_bench(cpu(), options), Failure);
}

// Two heads of width 2 would be refused; the judge of results does not mind.
BenchRun sound() {
  BenchRun run;
  run.out = {to_bf16(1.0F), to_bf16(2.0F)};
  run.recurrent = {0.5F, 0.25F};
  run.conv = {std::numeric_limits<float>::quiet_NaN(), 1.0F, 2.0F, 3.0F};
  return run;
}

TEST_CASE("what makes a result wrong", "[probe]") {
  const std::vector<float> before{0.0F, 0.0F};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(wrong_with(sound(), sound(), before).empty());
  BenchRun bad = sound();
  bad.out[1] = to_bf16(nan);
  CHECK_THAT(wrong_with(bad, sound(), before), ContainsSubstring("1 of 2 values of out"));
  CHECK_THAT(wrong_with(sound(), bad, before), ContainsSubstring("second run: 1 of 2 values of out"));
  bad = sound();
  bad.out[1] = bad.out[0];
  CHECK_THAT(wrong_with(bad, bad, before), ContainsSubstring("all 2 values of out are 1"));
  bad = sound();
  bad.recurrent[0] = nan;
  CHECK_THAT(wrong_with(bad, bad, before), ContainsSubstring("the recurrent state"));
  bad = sound();
  bad.conv[3] = nan;
  CHECK_THAT(wrong_with(bad, bad, before), ContainsSubstring("the convolution state"));
  CHECK_THAT(wrong_with(sound(), sound(), sound().recurrent), ContainsSubstring("as it was before"));
  BenchRun other = sound();
  other.conv[2] = 2.5F;
  CHECK_THAT(wrong_with(sound(), other, before), ContainsSubstring("differ"));
  CHECK_THAT(wrong_with({}, {}, before), ContainsSubstring("no result"));
}

TEST_CASE("rows in f32 are judged as those in bf16", "[probe]") {
  const std::vector<float> before{0.0F, 0.0F};
  BenchRun good = sound();
  good.out.clear();
  good.wide_out = {1.0F, -2.0F};
  CHECK(wrong_with(good, good, before).empty());
  BenchRun bad = good;
  bad.wide_out[0] = std::numeric_limits<float>::infinity();
  CHECK_THAT(wrong_with(bad, bad, before), ContainsSubstring("1 of 2 values of out"));
  bad.wide_out = {-2.0F, -2.0F};
  CHECK_THAT(wrong_with(bad, bad, before), ContainsSubstring("all 2 values of out are -2"));
  bad.wide_out = {1.0F, -2.5F};
  CHECK_THAT(wrong_with(good, bad, before), ContainsSubstring("differ"));
}

BenchOptions tiny_core(Mode mode) {
  BenchOptions options = tiny(mode);
  options.of = BenchOf::core;
  return options;
}

TEST_CASE("the core is timed in every mode by the call that it has", "[probe]") {
  BenchOptions options = tiny_core(Mode::decode);
  options.modes = {Mode::decode, Mode::decode_k, Mode::prefill};
  options.tokens = {20};
  options.graph = true;
  const BenchResult result = run_bench(cpu(), options);
  CHECK(result.exit() == ExitCode::ok);
  CHECK(result.of == BenchOf::core);
  REQUIRE(result.rows.size() == 6);
  const std::vector<std::string> calls{"decode_k_core", "decode_k_core", "decode_k_core",
                                       "decode_k_core", "prefill_core",  "prefill_core"};
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(result.rows[i].call == calls[i]);
    CHECK(result.rows[i].batch == 1);
    CHECK(result.rows[i].timing.device_us.size() == 2);
    CHECK(result.rows[i].rotation.weight_sets == 1);
    CHECK(result.rows[i].rotation.input_sets > 1);
    CHECK(result.rows[i].traffic.total() ==
          core_traffic(options.geometries.front().config, result.rows[i].tokens).total());
  }
}

TEST_CASE("a batch is timed with the recurrent kernel that the layer takes", "[probe]") {
  BenchOptions options = tiny_core(Mode::decode);
  options.batches = {1, 3, 8};
  options.graph = true;
  for (const bool without : {false, true}) {
    if (without) options.without = {"recurrent_smem"};
    const BenchResult result = run_bench(cpu(), options);
    CHECK(result.exit() == ExitCode::ok);
    REQUIRE(result.rows.size() == 6);
    for (std::size_t i = 0; i < 6; ++i) {
      const BenchRow& row = result.rows[i];
      CHECK(row.call == (without ? "recurrent" : "recurrent_smem"));
      CHECK(row.batch == options.batches[i / 2]);
      CHECK(row.graph == (i % 2 == 1));
      CHECK(row.traffic.state == std::uint64_t{2} * row.batch * 2 * 64 * 64 * 4);
      CHECK(row.state_bytes_per_second() > 0.0);
      CHECK(row.rotation.input_sets > 1);
    }
  }
}

TEST_CASE("wrong results of the core and of the recurrent kernel get no time", "[probe]") {
  BenchOptions options = tiny_core(Mode::prefill);
  const BenchResult core = run_bench(Spoilt::over(cpu(), Spoilt::Way::drops_launches), options);
  options = tiny_core(Mode::decode);
  options.batches = {2};
  const BenchResult batch = run_bench(Spoilt::over(cpu(), Spoilt::Way::drops_launches), options);
  const BenchResult unsteady = run_bench(Spoilt::over(cpu(), Spoilt::Way::changes_copies), options);
  for (const BenchResult* result : {&core, &batch, &unsteady}) {
    REQUIRE(result->rows.size() == 1);
    REQUIRE(result->rows[0].error);
    CHECK(result->rows[0].error->code == "check_failed");
    CHECK(result->exit() == ExitCode::check_failed);
  }
  CHECK_THAT(batch.rows[0].error->message, ContainsSubstring("never written"));
  CHECK_THAT(unsteady.rows[0].error->message, ContainsSubstring("differ"));
}

TEST_CASE("a batch that does not fit says so", "[probe]") {
  BenchOptions options = tiny_core(Mode::decode);
  options.batches = {2, 4000};
  const BenchResult result = run_bench(cpu(), options);
  REQUIRE(result.rows.size() == 2);
  CHECK_FALSE(result.rows[0].error);
  REQUIRE(result.rows[1].error);
  CHECK(result.rows[1].error->code == "out_of_device_memory");
  CHECK_THAT(result.rows[1].error->message, ContainsSubstring("4000 sequences"));
}

TEST_CASE("a sample has as many calls as it takes to be long enough and one before the clock", "[probe]") {
  const auto backend = FakeBackend::open();  // 1.5 ms between any two events
  const OwnedStream stream(backend);
  std::uint32_t calls = 0;
  const auto submit = [&] { ++calls; };
  EventTimer timer(backend, stream.get());

  const Timing single = timer.measure(submit, {.repeats = 4, .sample_ms = 1.0, .warm_up_ms = 0.0});
  CHECK(single.calls_per_sample == 1);
  CHECK(single.device_us == std::vector<double>(4, 1500.0));
  CHECK(calls == 1 + 4);

  calls = 0;
  const Timing several = timer.measure(submit, {.repeats = 2, .sample_ms = 2.0, .warm_up_ms = 0.0});
  CHECK(several.calls_per_sample == 4096);  // this clock never gets there
  CHECK(several.device_us == std::vector<double>(2, 1500.0 / 4096));
  CHECK(calls > 2 * 4097);
}

TEST_CASE("without a number of samples the budget ends a row after the least", "[probe]") {
  const auto backend = FakeBackend::open();
  const OwnedStream stream(backend);
  EventTimer timer(backend, stream.get());
  const auto samples = [&](double budget_s) {
    const Sampling sampling{
        .repeats = {}, .most = 9, .least = 3, .budget_s = budget_s, .sample_ms = 1.0, .warm_up_ms = 0.0};
    return timer.measure([] {}, sampling).device_us.size();
  };
  CHECK(samples(0.0) == 3);
  CHECK(samples(60.0) == 9);
}

TEST_CASE("the buffers of the copy fit in half of what is free and in one allocation", "[probe]") {
  constexpr std::uint64_t mib = std::uint64_t{1} << 20;
  CHECK(copy_buffer_bytes(DeviceType::discrete, 100000 * mib, 0) == 512 * mib);
  CHECK(copy_buffer_bytes(DeviceType::cpu, 100000 * mib, 0) == 256 * mib);
  CHECK(copy_buffer_bytes(DeviceType::discrete, 2000 * mib, 0) == 256 * mib);
  CHECK(copy_buffer_bytes(DeviceType::discrete, 100000 * mib, 128 * mib) == 128 * mib);
  CHECK(copy_buffer_bytes(DeviceType::discrete, 0, 0) == mib);
}

}  // namespace
}  // namespace kdart::probe
