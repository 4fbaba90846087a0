// Where a result goes: the only place that writes to standard output or to the file of --output.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>

namespace kdart::probe {

class Output {
 public:
  // No file: standard output. A file is emptied now, so that one that cannot be written is refused before the work.
  // Throws Failure (io_error).
  explicit Output(const std::optional<std::filesystem::path>& file);
  // Throws Failure (io_error) when not all of it could be written.
  void write(std::string_view text);

 private:
  std::optional<std::filesystem::path> path_;
  std::ofstream file_;
};

}  // namespace kdart::probe
