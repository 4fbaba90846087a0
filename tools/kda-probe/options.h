// What the command line asks for, as plain values. cli.cpp fills them; nothing here knows how they were written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench_options.h"
#include "kdart/layer.h"
#include "modes.h"

namespace kdart::probe {

enum class Format : std::uint8_t { text, json, csv, md };  // the last two: tables of benchmarks alone

// Where a result goes and how it looks. No path: standard output.
struct OutputOptions {
  Format format = Format::text;
  std::optional<std::filesystem::path> file;
};

// The kernel set of a directory; unset: the one that is built in for the backend in question.
using KernelSetDirectory = std::optional<std::filesystem::path>;

struct ListOptions {
  KernelSetDirectory kernel_set;
};

struct InfoOptions {
  std::string device = "cpu:0";
  KernelSetDirectory kernel_set;
};

// With `target` no device is opened: `backend` and `target` stand for one.
struct KernelsOptions {
  std::string device = "cpu:0";
  std::string backend;
  std::optional<std::string> target;
  std::vector<std::string> without;
  KernelSetDirectory kernel_set;
};

struct LayerOptions {
  std::filesystem::path model;         // a model folder, or empty with `geometry` set
  std::optional<Geometry> geometry;    // instead of `model`
  std::optional<std::uint32_t> layer;  // the N of `layers.N`; unset: the first KDA layer
  std::filesystem::path cases;         // empty: seeded random input
  std::string device = "cpu:0";
  std::vector<Mode> modes;
  KdaRoute route = KdaRoute::automatic;
  KdaGemm gemm = KdaGemm::automatic;
  std::vector<std::string> without;
  std::uint32_t tokens = 17;                 // of the random input
  std::uint64_t seed = 0;                    // of the random input, and of the weights of a geometry
  std::optional<std::uint32_t> sample_rows;  // of the output that are compared; unset: all
  KernelSetDirectory kernel_set;
};

struct ReportOptions {
  KernelSetDirectory kernel_set;
};

// Text that needs no device: --help, --version.
struct TextRequest {
  std::string key;  // the JSON member that holds the text
  std::string text;
};

struct Invocation {
  std::string command;
  std::variant<TextRequest, ListOptions, InfoOptions, KernelsOptions, LayerOptions, ReportOptions, BenchOptions,
               LaunchBenchOptions>
      options;
};

}  // namespace kdart::probe
