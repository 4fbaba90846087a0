// The rows of benchmarks as tables. JSON is render.h's.
#pragma once

#include <string>
#include <vector>

#include "bench_results.h"
#include "results.h"
#include "table.h"

namespace kdart::probe {

// Facts, errors if there are any, and the table at the end.
[[nodiscard]] std::string bench_text(const BenchResult& result);
// A line of headings and one per row, numbers unrounded, fields quoted where they hold a comma, a quote or a line's end.
[[nodiscard]] std::string bench_csv(const BenchResult& result);
// What was measured where, then the table of bench_text in Markdown.
[[nodiscard]] std::string bench_markdown(const BenchResult& result);

// The same three for `bench launch`.
[[nodiscard]] std::string launch_text(const LaunchBenchResult& result);
[[nodiscard]] std::string launch_csv(const LaunchBenchResult& result);
[[nodiscard]] std::string launch_markdown(const LaunchBenchResult& result);

// Parts of both: a field that is quoted where it must be, a table's head and a line of it.
[[nodiscard]] std::string csv_field(const std::string& field);
[[nodiscard]] std::string markdown_heading(const std::vector<Table::Column>& columns);
[[nodiscard]] std::string markdown_line(const std::vector<std::string>& fields);

}  // namespace kdart::probe
