
#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "commands.h"
#include "core/runtime/format.h"
#include "exit_codes.h"
#include "kdart/checkpoint.h"
#include "kdart/kda_kernels.h"
#include "kernel_sets.h"
#include "progress.h"
#include "sample_rows.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

// Where weights come from. A geometry's are made late, when everything that could be refused has been.
struct Source {
  std::string model;
  std::optional<std::uint32_t> layer;
  KdaConfig config;
  std::optional<KdaWeights> weights;  // of a checkpoint
};

Source open_source(const LayerOptions& options) {
  if (options.geometry) return {options.geometry->name, std::nullopt, options.geometry->config, std::nullopt};
  return during(Stage::reading_input, [&] {
    const Checkpoint checkpoint = Checkpoint::open(options.model);
    if (!options.layer && checkpoint.config().kda_layers.empty()) {
      throw Error(ErrorCode::bad_checkpoint,
                  detail::format("{}: config.json lists no KDA layer", options.model.string()));
    }
    const std::uint32_t layer = options.layer ? *options.layer : checkpoint.config().kda_layers.front();
    KdaWeights weights = checkpoint.kda_layer(layer);
    weights.config.validate();
    return Source{options.model.string(), layer, weights.config, std::move(weights)};
  });
}

std::vector<reference::Case> read_cases(const LayerOptions& options, const KdaConfig& config) {
  if (options.cases.empty()) return {};
  return during(Stage::reading_input, [&] {
    std::vector<reference::Case> cases = reference::load_cases(options.cases, config);
    for (const reference::Case& c : cases) {
      if (c.tokens > std::numeric_limits<std::uint32_t>::max()) {
        throw Error(ErrorCode::bad_checkpoint,
                    detail::format("{}: case '{}' has {} tokens; the limit is {}", options.cases.string(), c.name,
                                   c.tokens, std::numeric_limits<std::uint32_t>::max()));
      }
    }
    return cases;
  });
}

std::vector<std::uint32_t> lengths(const LayerOptions& options, const std::vector<reference::Case>& cases) {
  if (cases.empty()) return {options.tokens};
  std::vector<std::uint32_t> result;
  result.reserve(cases.size());
  for (const reference::Case& c : cases) result.push_back(static_cast<std::uint32_t>(c.tokens));
  return result;
}

// Nothing checked is no success.
void refuse_empty_work(const LayerOptions& options, const std::vector<std::uint32_t>& tokens) {
  for (const std::uint32_t length : tokens) {
    for (const Mode mode : options.modes) {
      if (!plan(mode, length).empty()) return;
    }
  }
  throw Failure(std::string(to_string(ErrorCode::invalid_argument)),
                detail::format("no case of {} is long enough for mode prefill_split, which needs 2 tokens",
                               options.cases.string()),
                ExitCode::input);
}

KdaOptions layer_options(const LayerOptions& options, std::shared_ptr<LoadedSet> kernels) {
  KdaOptions result;
  result.route = options.route;
  result.gemm = options.gemm;
  result.without = options.without;
  result.kernels = std::move(kernels);
  return result;
}

// Weights, input and truth, in the order that keeps the least memory: a geometry's weights are gone once they are on
// the device.
struct Prepared {
  LayerRunner runner;
  std::vector<reference::Case> cases;
  std::optional<double> truth_seconds;
};

Prepared prepare(const LayerOptions& options, Source source, std::vector<reference::Case> cases,
                 const std::shared_ptr<GpuBackend>& backend, KdaWorkspace workspace, KdaOptions layer_options,
                 Progress& progress) {
  if (!source.weights) {
    progress.start("making weights", 0);
    source.weights = reference::random_weights(source.config, options.seed);
  }
  const KdaWeights& weights = *source.weights;
  // The layer first: a refusal should not wait for the truth.
  LayerRunner runner =
      during(Stage::running, [&] { return LayerRunner(backend, std::move(workspace), weights, layer_options); });
  if (!cases.empty()) return {std::move(runner), std::move(cases), std::nullopt};
  progress.start("float64 truth", options.tokens);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::uint64_t> rows;
  if (options.sample_rows) rows = sample_rows(options.tokens, *options.sample_rows, options.seed);
  cases.push_back(random_case(weights, options.tokens, options.seed, std::move(rows),
                              [&](std::uint64_t tokens) { progress.advance(tokens); }));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return {std::move(runner), std::move(cases), seconds};
}

}  // namespace

LayerResult run_layer(const LayerOptions& options) {
  Source source = open_source(options);
  std::vector<reference::Case> cases = read_cases(options, source.config);
  const std::vector<std::uint32_t> tokens = lengths(options, cases);
  refuse_empty_work(options, tokens);

  const auto backend = during(Stage::opening_device, [&] { return open_device(options.device); });
  const auto set = find_kernel_set(backend->info().backend, options.kernel_set);
  auto kernels = during(Stage::reading_input, [&] { return backend->load(set); });
  LayerResult result{backend->info().id, source.model, source.layer, name_of(*set), {}, {}};

  Progress progress;
  std::uint32_t longest = 0;
  for (const std::uint32_t length : tokens) longest = std::max(longest, longest_piece(options.modes, length));
  KdaWorkspace workspace = during(Stage::running, [&] {
    return KdaWorkspace(backend, source.config, longest, backend->info().limits.max_tokens_per_launch);
  });
  Prepared prepared = prepare(options, std::move(source), std::move(cases), backend, std::move(workspace),
                              layer_options(options, std::move(kernels)), progress);
  LayerRunner& runner = prepared.runner;
  result.recurrent_kernel = runner.layer().recurrent_kernel();
  result.prefill_gemm = runner.layer().prefill_gemm();
  result.truth_seconds = prepared.truth_seconds;
  if (options.sample_rows) result.sample_rows = prepared.cases.front().rows;

  std::uint64_t work = 0;
  for (const std::uint32_t length : tokens) work += runner.work(length, options.modes);
  progress.start(result.device, work);
  // Being told means waiting for each call; where nobody watches, the device is left to run ahead.
  OnTokens on_tokens;
  if (progress.enabled()) on_tokens = [&](std::uint32_t n) { progress.advance(n); };
  for (const reference::Case& c : prepared.cases) {
    std::vector<ResultRow> rows = during(Stage::running, [&] { return runner.run(c, options.modes, on_tokens); });
    std::move(rows.begin(), rows.end(), std::back_inserter(result.rows));
  }
  return result;
}

}  // namespace kdart::probe
