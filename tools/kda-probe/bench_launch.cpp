// `bench launch`: what submitting a launch costs the host, beside the driver's own call, and the device in a graph.
#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "bare_launch.h"
#include "commands.h"
#include "core/runtime/fail.h"
#include "core/runtime/format.h"
#include "exit_codes.h"
#include "kdart/launch.h"
#include "kdart/owned.h"
#include "kernel_sets.h"
#include "progress.h"

namespace kdart::probe {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::FillArgs;

// Fewer than a driver takes before it makes the host wait for the device.
constexpr std::uint32_t launches = 500;
constexpr std::uint32_t elements = 256;  // one block
constexpr float by_kdart = 1.0F, by_driver = 2.0F;
constexpr std::uint32_t most_samples = 400, least_samples = 10, warm_up_samples = 5;
constexpr double budget_s = 5.0;

class LaunchBench {
 public:
  LaunchBench(const std::shared_ptr<GpuBackend>& backend, std::shared_ptr<LoadedSet> kernels,
              std::optional<std::uint32_t> repeats)
      : backend_(backend),
        kernels_(std::move(kernels)),
        kernel_(kernels_->get("fill")),
        stream_(backend),
        target_(backend, elements * sizeof(float)),
        repeats_(repeats) {
    const LaunchRecord record = KernelLaunch(backend_, kernel_).args(arguments(by_kdart)).record();
    backend_->prepare(kernel_, record.block, record.shared_bytes);
    bare_ = BareLaunch::find(*backend_, kernel_, stream_.get(), arguments(by_driver), no_bare_);
  }

  [[nodiscard]] std::vector<LaunchRow> rows() {
    if (bare_ == nullptr) return {row(std::nullopt)};
    return {row(ContextState::current), row(ContextState::none)};
  }

  [[nodiscard]] GraphLaunchRow graph() {
    GraphLaunchRow row;
    row.kernels = launches;
    try {
      const OwnedGraph graph = capture();
      backend_->launch_graph(graph.get(), stream_.get());
      check_target(by_kdart);
      const auto submit = [&] { backend_->launch_graph(graph.get(), stream_.get()); };
      row.timing = EventTimer(backend_, stream_.get()).measure(submit, {.repeats = repeats_, .budget_s = budget_s});
    } catch (const Error& error) {
      row.error =
          BenchError{std::string(to_string(error.code())), error.what(), exit_code(error.code(), Stage::running)};
    }
    return row;
  }

 private:
  // The driver's call needs the context to be current; where kdart is to find none, it is so for that call alone.
  class ContextScope {
   public:
    explicit ContextScope(const BareLaunch* bare) : bare_(bare) {
      if (bare_ != nullptr) bare_->push_context();
    }
    ~ContextScope() {
      try {
        if (bare_ != nullptr) bare_->pop_context();
      } catch (const Error&) {  // nothing hangs on it any more
      }
    }
    ContextScope(const ContextScope&) = delete;
    ContextScope& operator=(const ContextScope&) = delete;

   private:
    const BareLaunch* bare_;
  };

  [[nodiscard]] FillArgs arguments(float value) const {
    FillArgs args{};
    args.dst = target_.get();
    args.n = elements;
    args.value = value;
    return args;
  }

  [[nodiscard]] LaunchRow row(std::optional<ContextState> context) {
    LaunchRow row;
    row.context = context;
    row.bare_missing = no_bare_;
    try {
      if (bare_ != nullptr && bare_->context_is_current()) {
        detail::fail(ErrorCode::invalid_argument, "{}: this thread has a context current that is not kda-probe's",
                     backend_->info().id);
      }
      const ContextScope current(context == ContextState::current ? bare_.get() : nullptr);
      sample(row);
    } catch (const Error& error) {
      row = {context, {}, {}, no_bare_, {}};
      row.error =
          BenchError{std::string(to_string(error.code())), error.what(), exit_code(error.code(), Stage::running)};
    }
    return row;
  }

  // kdart and the driver in turns, so that both meet the same conditions, now one first and now the other.
  void sample(LaunchRow& row) {
    for (std::uint32_t i = 0; i < warm_up_samples; ++i) {
      static_cast<void>(time_kdart());
      check_target(by_kdart);
      if (bare_ == nullptr) continue;
      static_cast<void>(time_bare(row.context));
      check_target(by_driver);
    }
    const auto start = Clock::now();
    const auto over = [&] { return std::chrono::duration<double>(Clock::now() - start).count() > budget_s; };
    const std::uint32_t most = repeats_.value_or(most_samples);
    for (std::uint32_t i = 0; i < most && (repeats_ || i < least_samples || !over()); ++i) {
      if (bare_ != nullptr && i % 2 == 1) row.bare_us.push_back(time_bare(row.context));
      row.kdart_us.push_back(time_kdart());
      if (bare_ != nullptr && i % 2 == 0) row.bare_us.push_back(time_bare(row.context));
    }
  }

  // Microseconds per launch. The end of the work is waited for outside.
  template <class Launch>
  double time(const Launch& launch) {
    const auto start = Clock::now();
    for (std::uint32_t i = 0; i < launches; ++i) launch();
    const std::chrono::duration<double, std::micro> taken = Clock::now() - start;
    backend_->synchronize(stream_.get());
    return taken.count() / launches;
  }
  double time_kdart() {
    const FillArgs args = arguments(by_kdart);
    return time([&] { KernelLaunch(backend_, kernel_).args(args).launch(stream_.get()); });
  }
  double time_bare(std::optional<ContextState> context) {
    const ContextScope current(context == ContextState::none ? bare_.get() : nullptr);
    return time([&] { bare_->launch(); });
  }

  [[nodiscard]] OwnedGraph capture() {
    const FillArgs args = arguments(by_kdart);
    backend_->fill(target_.get(), 0, sizeof(float), elements, stream_.get());
    backend_->begin_capture(stream_.get());
    try {
      for (std::uint32_t i = 0; i < launches; ++i) KernelLaunch(backend_, kernel_).args(args).launch(stream_.get());
    } catch (const Error&) {
      try {
        OwnedGraph(backend_, backend_->end_capture(stream_.get()));
      } catch (const Error&) {  // the capture is over either way, and the first error is the one to tell
      }
      throw;
    }
    return {backend_, backend_->end_capture(stream_.get())};
  }

  // What is timed runs: its kernel has written.
  void check_target(float value) {
    std::vector<float> found(elements);
    backend_->synchronize(stream_.get());
    backend_->copy_d2h(found.data(), target_.get(), target_.bytes());
    const auto wrong = std::count_if(found.begin(), found.end(), [&](float x) { return x != value; });
    if (wrong != 0) {
      detail::fail(ErrorCode::driver_error, "{} of {} elements are not {} after the launches that write it", wrong,
                   elements, value);
    }
  }

  std::shared_ptr<GpuBackend> backend_;
  std::shared_ptr<LoadedSet> kernels_;
  KernelHandle kernel_;
  OwnedStream stream_;
  Buffer target_;
  std::optional<std::uint32_t> repeats_;
  std::string no_bare_;
  std::unique_ptr<BareLaunch> bare_;
};

}  // namespace

std::string_view to_string(ContextState state) noexcept {
  return state == ContextState::current ? "current" : "none";
}

ExitCode LaunchBenchResult::exit() const noexcept {
  for (const LaunchRow& row : rows) {
    if (row.error) return row.error->exit;
  }
  return graph.error ? graph.error->exit : ExitCode::ok;
}

LaunchBenchResult run_bench_launch(const LaunchBenchOptions& options) {
  const auto backend = during(Stage::opening_device, [&] { return open_device(options.device); });
  return run_bench_launch(backend, find_kernel_set(backend->info().backend, options.kernel_set), options);
}

LaunchBenchResult run_bench_launch(const std::shared_ptr<GpuBackend>& backend,
                                   const std::shared_ptr<const KernelSet>& set, const LaunchBenchOptions& options) {
  auto kernels = during(Stage::reading_input, [&] { return backend->load(set); });
  LaunchBenchResult result;
  result.device = backend->info();
  result.kernels = choose(*set, backend->facts());
  result.repeats = options.repeats;
  result.launches_per_sample = launches;
  Progress progress;
  progress.start(backend->info().id + ": launching", 0);
  during(Stage::running, [&] {
    LaunchBench bench(backend, std::move(kernels), options.repeats);
    result.rows = bench.rows();
    result.graph = bench.graph();
  });
  return result;
}

}  // namespace kdart::probe
