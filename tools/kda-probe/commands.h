// The verbs. Each does its work and returns what it found; errors leave as Failure.
#pragma once

#include <memory>

#include "kdart/backend.h"
#include "options.h"
#include "results.h"

namespace kdart::probe {

[[nodiscard]] ListResult run_list(const ListOptions& options);
[[nodiscard]] InfoResult run_info(const InfoOptions& options);
[[nodiscard]] KernelsResult run_kernels(const KernelsOptions& options);
[[nodiscard]] LayerResult run_layer(const LayerOptions& options);
[[nodiscard]] ReportResult run_report(const ReportOptions& options);
[[nodiscard]] BenchResult run_bench(const BenchOptions& options);
// The same on a device that is open already; options.device is not looked at.
[[nodiscard]] BenchResult run_bench(const std::shared_ptr<GpuBackend>& backend, const BenchOptions& options);

[[nodiscard]] LaunchBenchResult run_bench_launch(const LaunchBenchOptions& options);
// The same on a device that is open already, with this set; of `options` the repeats.
[[nodiscard]] LaunchBenchResult run_bench_launch(const std::shared_ptr<GpuBackend>& backend,
                                                 const std::shared_ptr<const KernelSet>& set,
                                                 const LaunchBenchOptions& options);

}  // namespace kdart::probe
