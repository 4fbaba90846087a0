// Results for a person to read.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "bench_render.h"
#include "core/runtime/format.h"
#include "render.h"
#include "table.h"

namespace kdart::probe {
namespace {

std::string bytes_text(std::uint64_t bytes) {
  constexpr double unit = 1024.0;
  if (bytes < 1024) return detail::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t step = 0;
  for (; value >= unit && step < 4; ++step) value /= unit;
  return detail::format("{:.1f} {}iB", value, " KMGT"[step]);
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string dimensions(const Dim3& d) {
  return detail::format("{} x {} x {}", d.x, d.y, d.z);
}

// Lines of "name   value" under each other.
class Facts {
 public:
  void add(std::string_view name, std::string_view value) { text_ += detail::format("{:<24}{}\n", name, value); }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_;
};

std::string indented(const std::string& text) {
  std::string result;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    result += end > start ? "  " + text.substr(start, end - start) + '\n' : "\n";
    start = end + 1;
  }
  return result;
}

std::string rejected_text(const std::vector<RejectedImage>& rejected) {
  if (rejected.empty()) return {};
  Table table({{"rejected image", Align::left}, {"target", Align::left}, {"reason", Align::left}});
  for (const RejectedImage& image : rejected) table.add({image.file, image.target, image.reason});
  return "\n" + table.text();
}

std::string set_text(const KernelSetName& set) {
  return detail::format("{} {} for {} ({})", set.name, set.version, set.backend, set.origin);
}

std::string figure(double x) {
  return std::isfinite(x) ? detail::format("{:.2e}", x) : "not finite";
}

std::string bits(const std::optional<bool>& equal) {
  return equal ? (*equal ? "equal" : "DIFFER") : "-";
}

std::string rows_text(const std::vector<ResultRow>& rows) {
  Table table({{"case", Align::left},
               {"mode", Align::left},
               {"tokens", Align::right},
               {"route", Align::left},
               {"out", Align::right},
               {"bound", Align::right},
               {"state", Align::right},
               {"bound", Align::right},
               {"conv excess", Align::right},
               {"= decode", Align::left},
               {"= recurrent", Align::left},
               {"ms/token", Align::right},
               {"", Align::left}});
  for (const ResultRow& row : rows) {
    table.add({row.case_name, std::string(to_string(row.mode)), std::to_string(row.tokens),
               row.route == KdaRoute::reference ? "reference" : "auto", figure(row.figures.out_rel_l2),
               detail::format("{:.2e}", row.bounds.out), figure(row.figures.recurrent_rel_l2),
               detail::format("{:.2e}", row.bounds.recurrent), figure(row.figures.conv_max_excess),
               bits(row.bits_equal_decode), bits(row.bits_equal_recurrent),
               detail::format("{:.3f}", row.seconds_per_token * 1e3), row.pass ? "pass" : "FAIL"});
  }
  return table.text();
}

std::string verdict(const LayerResult& result) {
  const auto passed = std::count_if(result.rows.begin(), result.rows.end(), [](const ResultRow& r) { return r.pass; });
  return detail::format("{} ({} of {} checks)\n", result.pass() ? "PASS" : "FAIL", passed, result.rows.size());
}

std::string device_facts(const DeviceInfo& device) {
  const DeviceLimits& limits = device.limits;
  Facts facts;
  facts.add("device", device.id);
  facts.add("name", device.name);
  facts.add("vendor", or_dash(device.vendor));
  facts.add("type", to_string(device.type));
  facts.add("uuid", or_dash(device.uuid));
  facts.add("PCI address", or_dash(device.pci_address));
  facts.add("target", device.target);
  facts.add("driver version", or_dash(device.driver_version));
  facts.add("driver library", or_dash(device.driver_library));
  facts.add("total memory", bytes_text(device.total_memory));
  facts.add("largest allocation", bytes_text(limits.allocation));
  facts.add("shared memory per block", bytes_text(limits.shared_memory_per_block));
  facts.add("threads per block", std::to_string(limits.threads_per_block));
  facts.add("block", dimensions(limits.block));
  facts.add("grid", dimensions(limits.grid));
  facts.add("subgroup", detail::format("{} to {}", limits.subgroup_min, limits.subgroup_max));
  facts.add("tokens per launch",
            limits.max_tokens_per_launch == 0 ? "no limit" : std::to_string(limits.max_tokens_per_launch));
  facts.add("features", or_dash(detail::format("{}", fmt::join(device.features, " "))));
  facts.add("quirks", or_dash(detail::format("{}", fmt::join(device.quirks, " "))));
  if (!device.unusable.empty()) facts.add("unusable", device.unusable);
  if (!device.note.empty()) facts.add("note", device.note);
  return facts.text();
}

std::string render(const TextRequest& request) {
  return request.text.ends_with('\n') ? request.text : request.text + '\n';
}

std::string render(const ListResult& result) {
  Table table({{"device", Align::left},
               {"name", Align::left},
               {"target", Align::left},
               {"memory", Align::right},
               {"driver", Align::left}});
  std::string remarks;
  for (const BackendStatus& status : result.backends) {
    for (const DeviceInfo& device : status.devices) {
      table.add(
          {device.id, device.name, device.target, bytes_text(device.total_memory), or_dash(device.driver_version)});
      if (!device.unusable.empty()) remarks += detail::format("\n{}: unusable: {}\n", device.id, device.unusable);
      if (!device.note.empty()) remarks += detail::format("\n{}: {}\n", device.id, device.note);
    }
    if (status.devices.empty()) {
      const std::string code(status.error ? to_string(*status.error) : "no device");
      table.add({status.backend, "none: " + code, "-", "-", "-"});
    }
    if (status.error) {
      remarks += detail::format("\n{}: {}: {}\n", status.backend, to_string(*status.error), status.message);
    }
  }
  if (result.backends.empty()) return "this build has no backend\n";
  return table.text() + remarks;
}

std::string render(const InfoResult& result) {
  Facts kernels;
  std::string rejected;
  if (const auto* none = std::get_if<Problem>(&result.kernels)) {
    kernels.add("kernel set", detail::format("none: {}: {}", none->code, none->message));
  } else {
    const auto& choice = std::get<SetChoice>(result.kernels);
    kernels.add("kernel set", set_text(choice.set));
    kernels.add("image",
                choice.image ? detail::format("{} ({})", choice.image->file, choice.image->target) : "none fits");
    rejected = rejected_text(choice.rejected);
  }
  Facts memory;
  memory.add("free memory", bytes_text(result.memory.free));
  return device_facts(result.device) + memory.text() + kernels.text() + rejected;
}

std::string render(const KernelsResult& result) {
  Facts facts;
  facts.add("kernel set", set_text(result.set));
  facts.add("target", result.target);
  facts.add("image", detail::format("{} ({})", result.image.file, result.image.target));
  Table table({{"kernel", Align::left},
               {"registers", Align::right},
               {"shared bytes", Align::right},
               {"argument bytes", Align::right}});
  for (const KernelRow& k : result.kernels) {
    table.add({k.name, k.registers ? std::to_string(*k.registers) : "-", std::to_string(k.shared_bytes),
               std::to_string(k.argument_bytes)});
  }
  const std::string missing = result.missing.empty() ? "none" : detail::format("{}", fmt::join(result.missing, ", "));
  return detail::format("{}{}\n{}\nmissing: {}\n", facts.text(), rejected_text(result.rejected), table.text(), missing);
}

std::string render(const LayerResult& result) {
  Facts facts;
  facts.add("device", result.device);
  facts.add("model", result.model);
  if (result.layer) facts.add("layer", std::to_string(*result.layer));
  facts.add("kernel set", set_text(result.set));
  facts.add("recurrent kernel", result.recurrent_kernel);
  facts.add("products of prefill", detail::format("{} by the device's GEMM service, {} by dense_gemm_bf16",
                                                  result.prefill_gemm.service, result.prefill_gemm.own));
  if (result.sample_rows && !result.rows.empty()) {
    facts.add("rows of out compared",
              detail::format("{} of {}", result.sample_rows->size(), result.rows.front().tokens));
  }
  return facts.text() + "\n" + rows_text(result.rows) +
         "\nout, state: relative L2 error against float64; conv excess: at most 0; '= x': the same bits as x\n" +
         verdict(result);
}

std::string system_text(const SystemInfo& system) {
  Facts facts;
  facts.add("kdart", detail::format("{}, {}, {}", system.kdart_version, system.build_type, system.compiler));
  facts.add("system", detail::format("{}, {}, {}", system.system, system.kernel, system.architecture));
  facts.add("processor", detail::format("{}, {} cores", or_dash(system.processor), system.cores));
  facts.add("memory", bytes_text(system.memory));
  return facts.text();
}

std::string sets_text(const std::vector<ReportSet>& sets) {
  Facts facts;
  for (const ReportSet& set : sets) {
    if (const auto* failed = std::get_if<Problem>(&set.manifest)) {
      facts.add("kernel set",
                detail::format("for {} ({}): {}: {}", set.backend, set.origin, failed->code, failed->message));
      continue;
    }
    const auto& manifest = std::get<Manifest>(set.manifest);
    facts.add("kernel set", set_text({manifest.set, manifest.version, manifest.backend, set.origin}));
    for (const auto& [tool, tool_version] : manifest.toolchain)
      facts.add("  built by", detail::format("{} {}", tool, tool_version));
    for (const ManifestImage& image : manifest.images) {
      facts.add("  image",
                detail::format("{} {} {} {}", image.file, image.target, bytes_text(image.bytes), image.sha256));
    }
  }
  return facts.text();
}

std::string report_device_text(const ReportDevice& device) {
  std::string text = detail::format("\n== {}\n", device.id);
  if (const auto* failed = std::get_if<Problem>(&device.info)) {
    text += detail::format("  {}: {}\n", failed->code, failed->message);
  } else {
    text += indented(render(std::get<InfoResult>(device.info)));
  }
  if (const auto* failed = std::get_if<Problem>(&device.self_check)) {
    return text + detail::format("  self-check could not run: {}: {}\n", failed->code, failed->message);
  }
  const auto& check = std::get<LayerResult>(device.self_check);
  return text + "\n  self-check: a small random layer against float64\n" +
         indented(rows_text(check.rows) + verdict(check));
}

std::string render(const ReportResult& result) {
  std::string text = system_text(result.system) + sets_text(result.sets) + "\n" + render(result.backends);
  for (const ReportDevice& device : result.devices) text += report_device_text(device);
  return text;
}

std::string render(const BenchResult& result) {
  return bench_text(result);
}
std::string render(const LaunchBenchResult& result) {
  return launch_text(result);
}

}  // namespace

std::string to_text(const Result& result) {
  return std::visit([](const auto& r) { return render(r); }, result);
}

}  // namespace kdart::probe
