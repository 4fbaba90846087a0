#include "table.h"

#include <algorithm>

namespace kdart::probe {
namespace {

// Characters, not bytes: names from drivers may be UTF-8.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::string Table::text() const {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  std::vector<std::size_t> widths(columns_.size(), 0);
  const auto widen = [&](const std::vector<std::string>& cells) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], width(cells.at(i)));
  };
  widen(headings);
  for (const auto& row : rows_) widen(row);

  std::string result;
  const auto append = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string blanks(widths[i] - width(cells[i]), ' ');
      line += columns_[i].align == Align::right ? blanks + cells[i] : cells[i] + blanks;
      line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    result += line + '\n';
  };
  append(headings);
  for (const auto& row : rows_) append(row);
  return result;
}

}  // namespace kdart::probe
