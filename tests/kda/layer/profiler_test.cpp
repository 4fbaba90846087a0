// The profiler hook: three spans per piece, each begun and ended around its work, in the call's own stream.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "tests/support/counting_backend.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"
#include "tools/reference/random_model.h"

namespace kdart::test {
namespace {

class Recorder final : public KdaProfiler {
 public:
  void begin(KdaSpan span, Stream stream) override { add("begin", span, stream); }
  void end(KdaSpan span, Stream stream) override { add("end", span, stream); }

  std::vector<std::string> marks;
  std::vector<std::uint64_t> submitted;  // by the device at each mark
  std::vector<Stream> streams;
  const CountingBackend* device = nullptr;

 private:
  void add(std::string what, KdaSpan span, Stream stream) {
    constexpr const char* names[] = {" front_end", " recurrence", " back_end"};
    marks.push_back(std::move(what) + names[static_cast<std::size_t>(span)]);
    streams.push_back(stream);
    submitted.push_back(device->submitted());
  }
};

const std::vector<std::string> one_piece = {"begin front_end", "end front_end",  "begin recurrence",
                                            "end recurrence",  "begin back_end", "end back_end"};

}  // namespace

TEST_CASE("every call records front end, recurrence and back end in order", "[kda][layer][profiler]") {
  constexpr std::uint32_t tokens = 40;
  const KdaConfig config = softplus_layer();
  const auto device = CountingBackend::over(open_test_device());
  Recorder recorder;
  recorder.device = device.get();
  KdaOptions options;
  options.profiler = &recorder;
  const auto weights = KdaDeviceWeights::upload(device, reference::random_weights(config, 47));
  LayerRunner runner(weights, tokens, options, 32);
  const Buffer rows(device, tokens * std::uint64_t{config.qkv()} * sizeof(bf16));
  const DevicePtr p = rows.get();
  const KdaCoreInputs core{.q = p, .k = p, .v = p, .f = p, .b = p, .z = p};
  runner.start(random_input(config, tokens, 1));

  // `pieces` times the three spans, each around submitted work, nothing submitted outside them.
  const auto check = [&](std::size_t pieces, const auto& call) {
    recorder.marks.clear(), recorder.submitted.clear(), recorder.streams.clear();
    const std::uint64_t before = device->submitted();
    call();
    std::vector<std::string> expected;
    for (std::size_t i = 0; i < pieces; ++i) expected.insert(expected.end(), one_piece.begin(), one_piece.end());
    REQUIRE(recorder.marks == expected);
    for (const Stream stream : recorder.streams) CHECK(stream == runner.stream());
    std::uint64_t last = before;
    for (std::size_t i = 0; i < recorder.submitted.size(); i += 2) {
      CHECK(recorder.submitted[i] == last);
      CHECK(recorder.submitted[i + 1] > recorder.submitted[i]);
      last = recorder.submitted[i + 1];
    }
    CHECK(device->submitted() == last);
  };
  const KdaLayer& layer = runner.layer();
  KdaState& state = runner.state();
  KdaWorkspace& ws = runner.workspace();
  const Stream stream = runner.stream();
  const DevicePtr hidden = runner.hidden(0);
  check(1, [&] { layer.decode(hidden, state, ws, stream); });
  check(1, [&] { layer.decode_k(hidden, 32, state, ws, {}, stream); });
  check(2, [&] { layer.decode_k(hidden, 33, state, ws, {}, stream); });
  check(1, [&] { layer.prefill(hidden, 32, state, ws, stream); });
  check(2, [&] { layer.prefill(hidden, tokens, state, ws, stream); });
  check(2, [&] { layer.prefill_with_pad_fill(hidden, tokens, state, ws, stream, 7.5F); });
  check(2, [&] { layer.decode_k_core(core, tokens, state, ws, {}, stream, p); });
  check(2, [&] { layer.prefill_core(core, tokens, state, ws, stream, p); });
  device->synchronize(stream);

  recorder.marks.clear();
  CHECK_THROWS_AS(layer.prefill(hidden, tokens + 1, state, ws, stream), Error);
  CHECK(recorder.marks.empty());
}

TEST_CASE("a profiler may record events, and changes no bit", "[kda][layer][profiler]") {
  class Timer final : public KdaProfiler {
   public:
    explicit Timer(std::shared_ptr<GpuBackend> gpu) : gpu_(std::move(gpu)) {
      for (int i = 0; i < 6; ++i) events_.emplace_back(gpu_);
    }
    void begin(KdaSpan span, Stream stream) override { gpu_->record(event(span, 0), stream); }
    void end(KdaSpan span, Stream stream) override { gpu_->record(event(span, 1), stream); }
    [[nodiscard]] Event event(KdaSpan span, std::size_t edge) const {
      return events_[2 * static_cast<std::size_t>(span) + edge].get();
    }

   private:
    std::shared_ptr<GpuBackend> gpu_;
    std::vector<OwnedEvent> events_;
  };
  const KdaConfig config = softplus_layer();
  const auto device = open_test_device();
  const auto weights = KdaDeviceWeights::upload(device, reference::random_weights(config, 48));
  Timer timer(device);
  KdaOptions options;
  options.profiler = &timer;
  LayerRunner timed(weights, 17, options);
  LayerRunner plain(weights, 17);
  const Input input = random_input(config, 17, 2);
  CHECK(difference(timed.run(input, prefill_whole(17)), plain.run(input, prefill_whole(17))) == "");
  for (const KdaSpan span : {KdaSpan::front_end, KdaSpan::recurrence, KdaSpan::back_end}) {
    CHECK(device->elapsed_ms(timer.event(span, 0), timer.event(span, 1)) >= 0.0);
  }
}

}  // namespace kdart::test
