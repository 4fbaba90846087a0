#include <string>
#include <utility>

#include "commands.h"
#include "exit_codes.h"
#include "kdart/kda_kernels.h"
#include "kernel_sets.h"
#include "system_info.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

constexpr std::uint32_t check_tokens = 19;  // a whole chunk and a part of one
constexpr std::uint64_t check_seed = 1;

// Small enough to take no time, with everything in it: two heads, both low ranks, the bounded gate.
KdaConfig check_geometry() {
  KdaConfig config;
  config.hidden_size = 128;
  config.heads = 2;
  config.head_dim = 64;
  config.decay_rank = 64;
  config.output_gate_rank = 64;
  config.gate_law = GateLaw::lower_bound;
  config.gate_lower_bound = -5.0F;
  return config;
}

LayerResult self_check(const std::string& device, const ReportOptions& options) {
  const KdaConfig config = check_geometry();
  const auto backend = during(Stage::opening_device, [&] { return open_device(device); });
  const auto set = find_kernel_set(backend->info().backend, options.kernel_set);
  KdaOptions layer_options;
  layer_options.kernels = during(Stage::reading_input, [&] { return backend->load(set); });
  const KdaWeights weights = reference::random_weights(config, check_seed);
  return during(Stage::running, [&] {
    LayerRunner runner(backend, KdaWorkspace(backend, config, check_tokens), weights, layer_options);
    return LayerResult{device,
                       "self-check",
                       std::nullopt,
                       name_of(*set),
                       std::string(runner.layer().recurrent_kernel()),
                       runner.run(random_case(weights, check_tokens, check_seed), all_modes(), {})};
  });
}

// A report of a machine where things go wrong is the one that is needed: each part stands alone.
template <class Work>
auto or_problem(Work&& work) -> std::variant<decltype(work()), Problem> {
  try {
    return work();
  } catch (const Failure& failure) {
    return Problem{failure.code(), failure.what()};
  }
}

std::vector<ReportSet> report_sets(const ReportOptions& options) {
  std::vector<ReportSet> sets;
  const auto add = [&](std::string backend) {
    std::string origin = options.kernel_set ? options.kernel_set->string() : "embedded";
    auto manifest = or_problem([&] { return find_kernel_set(backend, options.kernel_set)->manifest(); });
    sets.push_back({std::move(backend), std::move(manifest), std::move(origin)});
  };
  if (options.kernel_set) {
    add(find_kernel_set({}, options.kernel_set)->manifest().backend);
  } else {
    for (const std::string_view backend : backend_names()) add(std::string(backend));
  }
  return sets;
}

}  // namespace

ReportResult run_report(const ReportOptions& options) {
  ReportResult report;
  report.system = system_info();
  report.sets = report_sets(options);
  report.backends = run_list({options.kernel_set});
  for (const BackendStatus& backend : report.backends.backends) {
    for (const DeviceInfo& device : backend.devices) {
      report.devices.push_back({device.id, or_problem([&] { return run_info({device.id, options.kernel_set}); }),
                                or_problem([&] { return self_check(device.id, options); })});
    }
  }
  return report;
}

}  // namespace kdart::probe
