#include "tests/vulkan/pipelines/page.h"

#include <algorithm>
#include <span>

#include "core/runtime/format.h"

namespace kdart::test {
namespace {

// Pipelines that differ in the size of shared memory alone, and in what follows from it.
bool same_code(const PipelineRow& a, const PipelineRow& b) {
  return a.kernel == b.kernel && a.block == b.block && a.statistics.vgprs == b.statistics.vgprs &&
         a.statistics.sgprs == b.statistics.sgprs && a.statistics.code_bytes == b.statistics.code_bytes;
}

template <class Get>
std::string range(std::span<const PipelineRow> rows, Get get) {
  std::uint64_t low = get(rows.front());
  std::uint64_t high = low;
  for (const PipelineRow& row : rows) {
    low = std::min<std::uint64_t>(low, get(row));
    high = std::max<std::uint64_t>(high, get(row));
  }
  return low == high ? detail::format("{}", low) : detail::format("{} to {}", low, high);
}

std::string line(std::span<const PipelineRow> rows) {
  const PipelineRow& first = rows.front();
  return detail::format(
      "| {} | {} | {} | {} | {} | {} | {} | {} |\n", first.kernel, first.block,
      range(rows, [](const PipelineRow& row) { return row.shared_bytes; }), first.statistics.vgprs,
      first.statistics.sgprs, range(rows, [](const PipelineRow& row) { return row.statistics.lds_bytes; }),
      range(rows, [](const PipelineRow& row) { return row.statistics.waves; }), first.statistics.code_bytes);
}

std::string table(const FamilyTable& family) {
  std::string text = detail::format(
      "\n## {}\n\n| kernel | block | shared memory | VGPRs | SGPRs | LDS | waves per SIMD | code |\n"
      "|---|---|---|---|---|---|---|---|\n",
      family.family);
  const std::span<const PipelineRow> rows = family.rows;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin + 1;
    while (end < rows.size() && same_code(rows[begin], rows[end])) ++end;
    text += line(rows.subspan(begin, end - begin));
    begin = end;
  }
  return text;
}

}  // namespace

std::string registers_page(std::string_view tools, const std::vector<FamilyTable>& tables) {
  std::string text = detail::format(
      "# Registers of the Vulkan kernels on AMD GPUs\n\n"
      "What Mesa's driver makes of every pipeline of a layer with heads of 128 and of 64 and chunks of 16, and of the "
      "backend's\n"
      "own two (`fill_bytes`, `copy_bytes`), for GPUs that need not be there. Registers are per thread; sizes are in "
      "bytes.\n"
      "None spills, none uses scratch memory. `kdart_vulkan_pipelines --write` writes this page, and a test fails when "
      "it is\n"
      "out of date.\n\n"
      "Compiled with {}.\n",
      tools);
  for (const FamilyTable& family : tables) text += table(family);
  return text;
}

}  // namespace kdart::test
