// Columns of text, aligned.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace kdart::probe {

enum class Align : char { left, right };

class Table {
 public:
  struct Column {
    std::string heading;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // A heading line and one per row, two blanks between columns, none at a line's end.
  [[nodiscard]] std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kdart::probe
