// `bench layer` and `bench core`: how long calls take, beside what their memory traffic alone would take.
#include <algorithm>
#include <exception>
#include <functional>
#include <utility>

#include "bench_copy.h"
#include "bench_session.h"
#include "commands.h"
#include "core/runtime/fail.h"
#include "exit_codes.h"
#include "kernel_sets.h"
#include "progress.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

// More than the last cache of any device known.
constexpr std::uint64_t past_caches = std::uint64_t{256} << 20;
constexpr std::uint32_t most_weight_sets = 16;
constexpr std::uint32_t most_input_sets = 32;  // of a whole layer, whose weights rotate too
constexpr std::uint32_t most_core_sets = 128;

struct Bench {
  const BenchOptions& options;
  std::shared_ptr<GpuBackend> backend;
  OwnedStream stream;
  std::shared_ptr<LoadedSet> kernels;
  double bytes_per_second = 0.0;
};

// Says how much memory there is for what is about to be allocated. Throws out_of_device_memory when it is too little:
// before a driver, which may rather let the machine swap, is asked.
void check_room(std::string_view what, const BenchMemory& memory) {
  if (memory.needed <= memory.free) return;
  detail::fail(ErrorCode::out_of_device_memory, "{} needs {} bytes of device memory, {} are free", what, memory.needed,
               memory.free);
}

BenchError error_of(const Error& error) {
  return {std::string(to_string(error.code())), error.what(), exit_code(error.code(), Stage::running)};
}

// An allocation may fail although the sum would fit; then both figures belong to the message too.
BenchError error_of(const Error& error, const BenchMemory& memory) {
  BenchError result = error_of(error);
  if (error.code() == ErrorCode::out_of_device_memory && memory.needed <= memory.free) {
    result.message += detail::format("; the row needs {} bytes, {} were free", memory.needed, memory.free);
  }
  return result;
}

BenchLayers make_layers(const Bench& bench, const KdaConfig& config, BenchMemory& memory) {
  const std::uint64_t bytes = weight_bytes(config);
  memory = {bytes, bench.backend->memory_info().free};
  check_room("one copy of the weights", memory);
  // The core reads next to nothing of them.
  const std::uint32_t most = bench.options.of == BenchOf::layer ? most_weight_sets : 1;
  const std::uint32_t sets = rotation_sets(bytes, past_caches, memory.free / 4, 1, most);
  const KdaWeights weights = reference::random_weights(config, bench.options.seed);
  KdaOptions options;
  options.route = bench.options.route;
  // The core has no products, and no service is to be opened for it.
  options.gemm = bench.options.of == BenchOf::layer ? bench.options.gemm : KdaGemm::own;
  options.without = bench.options.without;
  options.kernels = bench.kernels;
  BenchLayers layers;
  layers.reserve(sets);
  for (std::uint32_t i = 0; i < sets; ++i) {
    layers.emplace_back(KdaDeviceWeights::upload(bench.backend, weights), options);
  }
  return layers;
}

// What a call moves and computes at least.
void count(BenchRow& row, const KdaConfig& config, BenchOf of, const BenchCase& what) {
  if (what.batch != 0) {
    row.traffic = recurrent_traffic(config, what.batch);
    row.flops = recurrent_flops(config, what.batch);
  } else if (of == BenchOf::core) {
    row.traffic = core_traffic(config, what.tokens);
    row.flops = core_flops(config, what.tokens);
  } else {
    row.traffic = traffic_of(config, what.tokens);
    row.flops = flops_of(config, what.tokens);
  }
}

// What is known of a row before anything of it has run.
BenchRow blank_row(const Bench& bench, const Geometry& geometry, BenchCase what, bool graph) {
  BenchRow row;
  row.geometry = geometry.name;
  row.mode = what.mode;
  row.tokens = what.tokens;
  row.batch = std::max(what.batch, 1U);
  row.graph = graph;
  count(row, geometry.config, bench.options.of, what);
  row.floor_us = floor_us(row.traffic.total(), bench.bytes_per_second);
  return row;
}

// Sizes the row's memory and says whether it is there.
void plan_memory(const Bench& bench, const BenchLayers& layers, const BenchCase& what, BenchRow& row) {
  const KdaConfig& config = layers.front().config();
  const BenchOf of = bench.options.of;
  const std::uint64_t shared = shared_bytes(config, what, bench.backend->info().limits);
  const std::uint64_t set = input_set_bytes(config, of, what);
  row.memory = {shared + set, bench.backend->memory_info().free};
  check_room(what.batch != 0 ? detail::format("decode of {} sequences", what.batch)
                             : detail::format("{} of {} tokens", to_string(what.mode), what.tokens),
             row.memory);
  const std::uint64_t room = (row.memory.free - shared) / 2;
  const auto layer_count = static_cast<std::uint32_t>(layers.size());
  const std::uint32_t least = of == BenchOf::layer ? layer_count : 2;  // two, so that none is the one just used
  const std::uint32_t most = of == BenchOf::layer ? most_input_sets : most_core_sets;
  const std::uint32_t sets = paired_sets(rotation_sets(set, past_caches, room, least, most), layer_count);
  row.rotation = {std::min(layer_count, sets), weight_bytes(config), sets, set};
  row.memory.needed = shared + sets * set;
}

// Runs the check and, only when it passes, the clock.
void fill_row(const Bench& bench, BenchSession& session, BenchRow& row) {
  if (row.graph) session.capture();
  std::string wrong = session.check();
  if (wrong.empty()) {
    EventTimer timer(bench.backend, bench.stream.get());
    Sampling sampling{.repeats = bench.options.repeats};
    // A GPU that was idle while weights were made takes a while to its full clock; 0.1 s showed times three times as long.
    if (bench.backend->info().type != DeviceType::cpu) sampling.warm_up_ms = 1000;
    Timing timing = timer.measure([&] { session.submit(); }, sampling);
    wrong = session.check_last();
    if (wrong.empty()) row.timing = std::move(timing);
  }
  if (!wrong.empty()) row.error = BenchError{"check_failed", wrong, ExitCode::check_failed};
}

// The rows of one kind of call: without a graph and, where asked for, with one.
std::vector<BenchRow> time_case(const Bench& bench, const Geometry& geometry, const BenchLayers& layers,
                                BenchCase what) {
  std::vector<BenchRow> rows{blank_row(bench, geometry, what, false)};
  if (bench.options.graph) rows.push_back(blank_row(bench, geometry, what, true));
  std::optional<BenchSession> session;
  for (BenchRow& row : rows) {
    row.route = layers.front().route();
    row.recurrent_kernel = layers.front().recurrent_kernel();
    if (bench.options.of == BenchOf::layer && what.mode == Mode::prefill)
      row.prefill_gemm = layers.front().prefill_gemm();
    row.call = call_name(bench.options.of, what, layers.front());
    try {
      if (session) {
        row.rotation = rows.front().rotation;
        row.memory = rows.front().memory;
      } else {
        plan_memory(bench, layers, what, row);
        session.emplace(
            bench.backend, bench.stream.get(),
            make_work(bench.options.of, layers, bench.stream.get(), what, row.rotation.input_sets, bench.options.seed));
      }
      fill_row(bench, *session, row);
    } catch (const Error& error) {
      row.error = error_of(error, row.memory);
    }
  }
  return rows;
}

// Rows that all have the reason why there is no layer to time.
std::vector<BenchRow> failed_rows(const Bench& bench, const Geometry& geometry, const std::vector<BenchCase>& cases,
                                  const BenchMemory& memory, const Error& error) {
  std::vector<BenchRow> rows;
  for (const BenchCase& what : cases) {
    for (const bool graph : {false, true}) {
      if (graph && !bench.options.graph) continue;
      BenchRow row = blank_row(bench, geometry, what, graph);
      row.memory = memory;
      row.error = error_of(error, memory);
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<BenchRow> time_geometry(const Bench& bench, const Geometry& geometry, Progress& progress) {
  const std::vector<BenchCase> cases = bench_cases(bench.options, bench.backend->info().type);
  BenchMemory memory;
  BenchLayers layers;
  progress.start(geometry.name + ": making weights", 0);
  try {
    layers = make_layers(bench, geometry.config, memory);
  } catch (const Error& error) {
    // A kernel that is named wrongly is the command line's fault and no geometry's.
    if (error.code() == ErrorCode::kernel_not_found) throw;
    return failed_rows(bench, geometry, cases, memory, error);
  }
  std::vector<BenchRow> rows;
  for (const BenchCase& what : cases) {
    progress.start(detail::format("{}: {} of {} tokens, {} sequences", geometry.name, to_string(what.mode), what.tokens,
                                  std::max(what.batch, 1U)),
                   0);
    std::vector<BenchRow> more = time_case(bench, geometry, layers, what);
    std::move(more.begin(), more.end(), std::back_inserter(rows));
  }
  return rows;
}

}  // namespace

ExitCode BenchResult::exit() const noexcept {
  ExitCode result = rows.empty() ? ExitCode::check_failed : ExitCode::ok;
  for (const BenchRow& row : rows) {
    if (!row.error) continue;
    if (row.error->exit != ExitCode::check_failed) return row.error->exit;
    result = ExitCode::check_failed;
  }
  return result;
}

BenchResult run_bench(const BenchOptions& options) {
  return run_bench(during(Stage::opening_device, [&] { return open_device(options.device); }), options);
}

BenchResult run_bench(const std::shared_ptr<GpuBackend>& backend, const BenchOptions& options) {
  const auto set = find_kernel_set(backend->info().backend, options.kernel_set);
  auto kernels = during(Stage::reading_input, [&] { return backend->load(set); });
  BenchResult result;
  result.device = backend->info();
  result.kernels = choose(*set, backend->facts());
  result.of = options.of;
  result.seed = options.seed;
  result.repeats = options.repeats;

  Progress progress;
  progress.start(backend->info().id + ": copying", 0);
  during(Stage::running, [&] {
    Bench bench{options, backend, OwnedStream(backend), std::move(kernels)};
    result.copy = measure_copy(backend, bench.stream.get(), options.seed);
    bench.bytes_per_second = result.copy.bytes_per_second();
    for (const Geometry& geometry : options.geometries) {
      std::vector<BenchRow> rows = time_geometry(bench, geometry, progress);
      std::move(rows.begin(), rows.end(), std::back_inserter(result.rows));
    }
  });
  return result;
}

}  // namespace kdart::probe
