// kda-probe: which kernels run on this machine, and are they right. docs/cli.md is its manual.

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <vector>

#include "bench_render.h"
#include "cli.h"
#include "commands.h"
#include "core/runtime/format.h"
#include "exit_codes.h"
#include "output.h"
#include "render.h"

namespace kdart::probe {
namespace {

Result carry_out(const TextRequest& request) {
  return request;
}
Result carry_out(const ListOptions& options) {
  return run_list(options);
}
Result carry_out(const InfoOptions& options) {
  return run_info(options);
}
Result carry_out(const KernelsOptions& options) {
  return run_kernels(options);
}
Result carry_out(const LayerOptions& options) {
  return run_layer(options);
}
Result carry_out(const ReportOptions& options) {
  return run_report(options);
}

Result carry_out(const BenchOptions& options) {
  return run_bench(options);
}
Result carry_out(const LaunchBenchOptions& options) {
  return run_bench_launch(options);
}

ExitCode exit_code(const Result& result) {
  if (const auto* bench = std::get_if<BenchResult>(&result)) return bench->exit();
  if (const auto* launch = std::get_if<LaunchBenchResult>(&result)) return launch->exit();
  bool passed = true;
  if (const auto* layer = std::get_if<LayerResult>(&result)) passed = layer->pass();
  if (const auto* report = std::get_if<ReportResult>(&result)) passed = report->pass();
  return passed ? ExitCode::ok : ExitCode::check_failed;
}

// The command line asks for csv and md only where there is a benchmark to put into them.
std::string rendered(const Result& result, Format format) {
  if (format == Format::json) return to_json(result);
  const auto* bench = std::get_if<BenchResult>(&result);
  if (bench != nullptr && format == Format::csv) return bench_csv(*bench);
  if (bench != nullptr && format == Format::md) return bench_markdown(*bench);
  const auto* launch = std::get_if<LaunchBenchResult>(&result);
  if (launch != nullptr && format == Format::csv) return launch_csv(*launch);
  if (launch != nullptr && format == Format::md) return launch_markdown(*launch);
  return to_text(result);
}

ExitCode run(const Invocation& invocation, const OutputOptions& where) {
  Output output(where.file);
  const Result result = std::visit([](const auto& options) { return carry_out(options); }, invocation.options);
  output.write(rendered(result, where.format));
  return exit_code(result);
}

void tell(const Failure& failure, const Outline& outline) {
  fmt::print(stderr, "kda-probe: {}: {}\n", failure.code(), failure.what());
  if (failure.exit() == ExitCode::usage) {
    fmt::print(stderr, "kda-probe {}{}--help shows the usage\n", outline.command.value_or(""),
               outline.command ? " " : "");
  }
  if (outline.output.format != Format::json) return;
  try {
    Output(outline.output.file).write(to_json(failure, outline.command));
  } catch (const Failure& second) {
    if (failure.code() != second.code()) fmt::print(stderr, "kda-probe: {}: {}\n", second.code(), second.what());
  }
}

// Whatever goes wrong comes out of here as a Failure.
ExitCode guarded(const std::vector<std::string>& arguments, const Outline& outline) {
  try {
    return run(parse(arguments), outline.output);
  } catch (const Failure&) {
    throw;
  } catch (const Error& error) {
    throw Failure(error, Stage::running);
  } catch (const std::bad_alloc&) {
    throw Failure(std::string(to_string(ErrorCode::out_of_host_memory)), "the host is out of memory", ExitCode::other);
  } catch (const std::exception& error) {
    throw Failure("internal", error.what(), ExitCode::other);
  }
}

ExitCode main_with(const std::vector<std::string>& arguments) {
  const Outline known = outline(arguments);
  try {
    return guarded(arguments, known);
  } catch (const Failure& failure) {
    tell(failure, known);
    return failure.exit();
  }
}

}  // namespace
}  // namespace kdart::probe

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(kdart::probe::main_with(arguments));
}
