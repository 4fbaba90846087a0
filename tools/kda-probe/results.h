// What each verb finds out, as plain values. json.cpp and text.cpp write them down; nothing here knows how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "bench_results.h"
#include "kdart/backend.h"
#include "kdart/registry.h"
#include "layer_runner.h"
#include "options.h"

namespace kdart::probe {

struct KernelSetName {
  std::string name, version, backend;
  std::string origin;  // "embedded" or the folder
};

struct ImageName {
  std::string file, target;
};

// What a device or target gets from a kernel set.
struct SetChoice {
  KernelSetName set;
  std::optional<ImageName> image;  // none when nothing fits
  std::vector<RejectedImage> rejected;
};

struct Problem {
  std::string code, message;
};

struct ListResult {
  std::vector<BackendStatus> backends;
};

struct InfoResult {
  DeviceInfo device;
  MemoryInfo memory;
  std::variant<SetChoice, Problem> kernels;
};

struct KernelRow {
  std::string name;
  std::optional<std::uint32_t> registers;
  std::uint32_t shared_bytes = 0;  // static
  std::uint32_t argument_bytes = 0;
};

struct KernelsResult {
  KernelSetName set;
  std::string target;
  ImageName image;
  std::vector<RejectedImage> rejected;
  std::vector<KernelRow> kernels;
  std::vector<std::string> missing;
};

struct LayerResult {
  std::string device;
  std::string model;                   // the folder, or the geometry's name
  std::optional<std::uint32_t> layer;  // none for a geometry
  KernelSetName set;
  std::string recurrent_kernel;
  std::vector<ResultRow> rows;
  std::optional<std::vector<std::uint64_t>> sample_rows{};  // of `out` that were compared; none: all
  std::optional<double> truth_seconds{};                    // to compute the truth; none: it was stored
  KdaPrefillGemm prefill_gemm{};
  [[nodiscard]] bool pass() const noexcept {
    for (const ResultRow& row : rows) {
      if (!row.pass) return false;
    }
    return !rows.empty();
  }
};

struct SystemInfo {
  std::string kdart_version, compiler, build_type;
  std::string system, kernel, architecture, processor;
  std::uint32_t cores = 0;
  std::uint64_t memory = 0;  // bytes
};

// A small random layer in every mode on one device.
struct ReportDevice {
  std::string id;
  std::variant<InfoResult, Problem> info;
  std::variant<LayerResult, Problem> self_check;
};

// A kernel set of this build, or of --kernel-set.
struct ReportSet {
  std::string backend;
  std::variant<Manifest, Problem> manifest;
  std::string origin;
};

struct ReportResult {
  SystemInfo system;
  ListResult backends;
  std::vector<ReportSet> sets;
  std::vector<ReportDevice> devices;
  // False when a self-check ran and failed, or could not run.
  [[nodiscard]] bool pass() const noexcept {
    for (const ReportDevice& device : devices) {
      const auto* check = std::get_if<LayerResult>(&device.self_check);
      if (check == nullptr || !check->pass()) return false;
    }
    return true;
  }
};

struct BenchResult {
  BenchOf of = BenchOf::layer;
  DeviceInfo device;
  SetChoice kernels;
  std::uint64_t seed = 0;
  std::optional<std::uint32_t> repeats;
  CopyBandwidth copy;
  std::vector<BenchRow> rows;

  // That of the first row with an error other than a failed check; else check_failed where a check failed, or where there
  // is no row.
  [[nodiscard]] ExitCode exit() const noexcept;
};

struct LaunchBenchResult {
  DeviceInfo device;
  SetChoice kernels;
  std::optional<std::uint32_t> repeats;
  std::uint32_t launches_per_sample = 0;
  std::vector<LaunchRow> rows;
  GraphLaunchRow graph;

  [[nodiscard]] ExitCode exit() const noexcept;  // that of the first error
};

using Result = std::variant<TextRequest, ListResult, InfoResult, KernelsResult, LayerResult, ReportResult, BenchResult,
                            LaunchBenchResult>;

}  // namespace kdart::probe
