// docs/vulkan-registers.md: the statistics of every pipeline as tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/vulkan/pipelines/radv.h"

namespace kdart::test {

struct PipelineRow {
  std::string kernel;
  std::string block;  // "64"; "fixed" when the module decides
  std::uint32_t shared_bytes = 0;
  PipelineStatistics statistics;
};

struct FamilyTable {
  std::string family;
  std::vector<PipelineRow> rows;
};

// `tools` says what compiled the pipelines: a page of other tools has other figures. It stands in the page as it is.
[[nodiscard]] std::string registers_page(std::string_view tools, const std::vector<FamilyTable>& tables);

}  // namespace kdart::test
