// The verbs. Each does its work and returns what it found; errors leave as Failure.
#pragma once

#include "options.h"
#include "results.h"

namespace kdart::probe {

[[nodiscard]] ListResult run_list(const ListOptions& options);
[[nodiscard]] InfoResult run_info(const InfoOptions& options);
[[nodiscard]] KernelsResult run_kernels(const KernelsOptions& options);
[[nodiscard]] LayerResult run_layer(const LayerOptions& options);
[[nodiscard]] ReportResult run_report(const ReportOptions& options);

}  // namespace kdart::probe
