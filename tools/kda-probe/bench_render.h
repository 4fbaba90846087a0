// The rows of `bench layer` as tables. JSON is render.h's.
#pragma once

#include <string>

#include "bench_results.h"
#include "results.h"

namespace kdart::probe {

// Facts, errors if there are any, and the table at the end.
[[nodiscard]] std::string bench_text(const BenchResult& result);
// A line of headings and one per row, numbers unrounded, fields quoted where they hold a comma, a quote or a line's end.
[[nodiscard]] std::string bench_csv(const BenchResult& result);
// What was measured where, then the table of bench_text in Markdown.
[[nodiscard]] std::string bench_markdown(const BenchResult& result);

}  // namespace kdart::probe
