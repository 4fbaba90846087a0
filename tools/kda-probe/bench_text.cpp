#include <cmath>
#include <string_view>

#include "bench_render.h"
#include "core/runtime/format.h"
#include "table.h"

namespace kdart::probe {
namespace {

std::string_view route_text(const BenchRow& row) {
  if (!row.route) return "-";
  return *row.route == KdaRoute::reference ? "reference" : "auto";
}

// Who does the products of a prefill; "" where there are none.
std::string gemm_text(const BenchRow& row) {
  if (!row.prefill_gemm) return "";
  const auto& [service, own] = *row.prefill_gemm;
  if (service != 0 && own != 0) return detail::format("{} service {} own", service, own);
  return service != 0 ? "service" : "own";
}

std::string row_name(const BenchRow& row) {
  const std::string batch = row.batch > 1 ? detail::format(" of each of {} sequences", row.batch) : "";
  return detail::format("{} {} of {}{}{}", row.geometry, to_string(row.mode), row.tokens, batch,
                        row.graph ? ", graph" : "");
}

const std::vector<Table::Column>& columns() {
  static const std::vector<Table::Column> list{
      {"geometry", Align::left},   {"mode", Align::left},     {"tokens", Align::right},   {"batch", Align::right},
      {"graph", Align::left},      {"route", Align::left},    {"call", Align::left},      {"gemm", Align::left},
      {"us/call", Align::right},   {"min", Align::right},     {"us/token", Align::right}, {"wall us", Align::right},
      {"floor us", Align::right},  {"x floor", Align::right}, {"p90/med", Align::right},  {"samples", Align::right},
      {"calls", Align::right},     {"MB", Align::right},      {"GFLOP", Align::right},    {"GFLOP/s", Align::right},
      {"state GB/s", Align::right}};
  return list;
}

std::vector<std::string> cells(const BenchRow& row) {
  const double us = row.median_us();
  const auto measured = [&](std::string text) { return row.error ? "-" : std::move(text); };
  const auto one = [](double x) { return detail::format("{:.1f}", x); };
  return {row.geometry,
          std::string(to_string(row.mode)),
          std::to_string(row.tokens),
          std::to_string(row.batch),
          row.graph ? "yes" : "no",
          std::string(route_text(row)),
          row.call.empty() ? "-" : row.call,
          row.prefill_gemm ? gemm_text(row) : "-",
          row.error ? row.error->code : one(us),
          measured(one(smallest(row.timing.device_us))),
          measured(one(us / row.tokens)),
          measured(one(median(row.timing.wall_us))),
          one(row.floor_us),
          measured(detail::format("{:.2f}", us / row.floor_us)),
          measured(detail::format("{:.2f}", row.deviation())),
          measured(std::to_string(row.timing.device_us.size())),
          measured(std::to_string(row.timing.calls_per_sample)),
          one(static_cast<double>(row.traffic.total()) * 1e-6),
          detail::format("{:.3f}", static_cast<double>(row.flops) * 1e-9),
          measured(one(static_cast<double>(row.flops) * 1e-3 / us)),
          measured(one(row.state_bytes_per_second() * 1e-9))};
}

std::string copy_text(const CopyBandwidth& copy) {
  return detail::format("{:.1f} GB/s (median of {} samples, copies of {} MiB, bytes read + written)",
                        copy.bytes_per_second() * 1e-9, copy.timing.device_us.size(), copy.buffer_bytes >> 20);
}

std::string driver_text(const DeviceInfo& device) {
  return device.driver_version.empty() ? "-" : device.driver_version;
}

std::string set_text(const SetChoice& kernels) {
  std::string text = detail::format("{} {} ({})", kernels.set.name, kernels.set.version, kernels.set.origin);
  if (kernels.image) text += detail::format(", image {}", kernels.image->target);
  return text;
}

std::string facts(const BenchResult& result) {
  std::string text;
  const auto add = [&](std::string_view name, std::string_view value) {
    text += detail::format("{:<24}{}\n", name, value);
  };
  add("device", detail::format("{} {}", result.device.id, result.device.name));
  add("driver version", driver_text(result.device));
  add("kernel set", set_text(result.kernels));
  add("copy bandwidth", copy_text(result.copy));
  return text;
}

std::string errors(const BenchResult& result) {
  std::string text;
  for (const BenchRow& row : result.rows) {
    if (row.error) text += detail::format("{}: {}: {}\n", row_name(row), row.error->code, row.error->message);
  }
  return text;
}

// An empty field for what was not measured.
std::vector<std::string> csv_fields(const BenchResult& result, const BenchRow& row) {
  const auto measured = [&](double x) { return row.error ? std::string() : detail::format("{}", x); };
  const auto counted = [&](std::uint64_t n) { return row.error ? std::string() : std::to_string(n); };
  const double us = row.median_us();
  return {result.device.id,
          row.geometry,
          std::string(to_string(row.mode)),
          std::to_string(row.tokens),
          std::to_string(row.batch),
          row.graph ? "yes" : "no",
          row.call,
          row.route ? std::string(route_text(row)) : std::string(),
          gemm_text(row),
          measured(us),
          measured(smallest(row.timing.device_us)),
          measured(us / row.tokens),
          measured(median(row.timing.wall_us)),
          measured(median(row.timing.submit_us)),
          measured(row.deviation()),
          counted(row.timing.device_us.size()),
          counted(row.timing.calls_per_sample),
          std::to_string(row.traffic.total()),
          std::to_string(row.flops),
          detail::format("{}", row.floor_us),
          measured(us / row.floor_us),
          measured(row.state_bytes_per_second()),
          detail::format("{}", result.copy.bytes_per_second()),
          row.error ? row.error->code : std::string(),
          row.error ? row.error->message : std::string()};
}

constexpr std::string_view csv_heading =
    "device,geometry,mode,tokens,batch,graph,call,route,gemm,median_us,min_us,us_per_token,wall_us,submit_us,p90_over_"
    "median,samples,"
    "calls_per_sample,bytes,flops,floor_us,over_floor,state_bytes_per_second,copy_bytes_per_second,error,message\n";

}  // namespace

std::string csv_field(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + '"';
}

std::string markdown_line(const std::vector<std::string>& fields) {
  std::string line = "|";
  for (const std::string& field : fields) line += ' ' + field + " |";
  return line + '\n';
}

std::string markdown_heading(const std::vector<Table::Column>& columns) {
  std::vector<std::string> headings, rule;
  for (const Table::Column& column : columns) {
    headings.push_back(column.heading);
    rule.emplace_back(column.align == Align::right ? "---:" : "---");
  }
  return markdown_line(headings) + markdown_line(rule);
}

std::string bench_text(const BenchResult& result) {
  Table table(columns());
  for (const BenchRow& row : result.rows) table.add(cells(row));
  std::string problems = errors(result);
  if (!problems.empty()) problems += '\n';
  return facts(result) +
         "\nus: microseconds on the device's clock, median of the samples; wall: on the host's, from submission to "
         "end\n"
         "floor: bytes (weights once, states and rows read and written) at the copy bandwidth\n\n" +
         problems + table.text();
}

std::string bench_csv(const BenchResult& result) {
  std::string text(csv_heading);
  for (const BenchRow& row : result.rows) {
    std::string line;
    for (const std::string& field : csv_fields(result, row)) {
      if (!line.empty()) line += ',';
      line += csv_field(field);
    }
    text += line + '\n';
  }
  return text;
}

std::string bench_markdown(const BenchResult& result) {
  std::string text = detail::format("{} {}, driver {}, {}; copies at {}.\n\n", result.device.id, result.device.name,
                                    driver_text(result.device), set_text(result.kernels), copy_text(result.copy));
  text += markdown_heading(columns());
  for (const BenchRow& row : result.rows) text += markdown_line(cells(row));
  if (const std::string problems = errors(result); !problems.empty()) text += '\n' + problems;
  return text;
}

}  // namespace kdart::probe
