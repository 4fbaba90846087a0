// Layers by size, for runs without a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "kdart/config.h"

namespace kdart::probe {

struct Geometry {
  std::string name;  // of named_geometry, or "heads,dim,hidden"
  KdaConfig config;
};

// Geometries from words (as between commas): names, and three numbers in a row for heads, dim and hidden. No word: all
// names. Throws Failure (usage).
[[nodiscard]] std::vector<Geometry> geometries(const std::vector<std::string>& words);

}  // namespace kdart::probe
