// The tables of `bench launch`.
#include <string_view>

#include "bench_render.h"
#include "core/runtime/format.h"
#include "table.h"

namespace kdart::probe {
namespace {

// "": the device knows no contexts.
std::string context_text(const LaunchRow& row) {
  return row.context ? std::string(to_string(*row.context)) : std::string();
}

std::string three(double x) {
  return detail::format("{:.3f}", x);
}

const std::vector<Table::Column>& columns() {
  static const std::vector<Table::Column> list{{"context", Align::left}, {"KernelLaunch us", Align::right},
                                               {"min", Align::right},    {"driver's own us", Align::right},
                                               {"min", Align::right},    {"ratio", Align::right},
                                               {"samples", Align::right}};
  return list;
}

std::vector<std::string> cells(const LaunchRow& row) {
  const std::string context = row.context ? context_text(row) : "-";
  if (row.error) return {context, row.error->code, "-", "-", "-", "-", "0"};
  const bool bare = !row.bare_us.empty();
  return {context,
          three(median(row.kdart_us)),
          three(smallest(row.kdart_us)),
          bare ? three(median(row.bare_us)) : "-",
          bare ? three(smallest(row.bare_us)) : "-",
          bare ? three(row.ratio()) : "-",
          std::to_string(row.kdart_us.size())};
}

std::string graph_text(const GraphLaunchRow& row) {
  if (row.error) return detail::format("in a graph: {}: {}\n", row.error->code, row.error->message);
  return detail::format("in a graph of {} kernels: {:.3f} us per kernel on the device's clock, median of {} samples\n",
                        row.kernels, row.us_per_kernel(), row.timing.device_us.size());
}

std::string notes(const LaunchBenchResult& result) {
  std::string text;
  for (const LaunchRow& row : result.rows) {
    if (row.error) text += detail::format("{}: {}: {}\n", context_text(row), row.error->code, row.error->message);
  }
  if (!result.rows.empty() && !result.rows.front().bare_missing.empty()) {
    text += detail::format("no figure of the driver's own: {}\n", result.rows.front().bare_missing);
  }
  return text;
}

std::string heading(const LaunchBenchResult& result) {
  return detail::format("{} {}, driver {}; launches of one small block, {} per sample", result.device.id,
                        result.device.name, result.device.driver_version.empty() ? "-" : result.device.driver_version,
                        result.launches_per_sample);
}

std::string field(double x, bool measured) {
  return measured ? detail::format("{}", x) : std::string();
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& text : fields) line += (line.empty() ? "" : ",") + csv_field(text);
  return line + '\n';
}

}  // namespace

std::string launch_text(const LaunchBenchResult& result) {
  Table table(columns());
  for (const LaunchRow& row : result.rows) table.add(cells(row));
  return detail::format(
      "{}\n\nus: the host's microseconds per launch, medians; context: what the thread had current before each "
      "call\n{}\n"
      "{}\n{}",
      heading(result), notes(result), table.text(), graph_text(result.graph));
}

std::string launch_csv(const LaunchBenchResult& result) {
  std::string text =
      "device,context,kdart_us,kdart_min_us,bare_us,bare_min_us,ratio,samples,bare_missing,error,message\n";
  for (const LaunchRow& row : result.rows) {
    const bool good = !row.error;
    const bool bare = good && !row.bare_us.empty();
    text += csv_line({result.device.id, context_text(row), field(median(row.kdart_us), good),
                      field(smallest(row.kdart_us), good), field(median(row.bare_us), bare),
                      field(smallest(row.bare_us), bare), field(row.ratio(), bare), std::to_string(row.kdart_us.size()),
                      row.bare_missing, good ? "" : row.error->code, good ? "" : row.error->message});
  }
  const GraphLaunchRow& graph = result.graph;
  const bool good = !graph.error;
  text += csv_line({result.device.id, "graph", field(graph.us_per_kernel(), good),
                    field(smallest(graph.timing.device_us) / graph.kernels, good), "", "", "",
                    std::to_string(graph.timing.device_us.size()), "", good ? "" : graph.error->code,
                    good ? "" : graph.error->message});
  return text;
}

std::string launch_markdown(const LaunchBenchResult& result) {
  std::string text = heading(result) + "; microseconds on the host's clock.\n\n" + markdown_heading(columns());
  for (const LaunchRow& row : result.rows) text += markdown_line(cells(row));
  return text + '\n' + notes(result) + graph_text(result.graph);
}

}  // namespace kdart::probe
