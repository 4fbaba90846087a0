// Writes a kernel set to a folder, less some kernels: what a user's own build of a set might lack.
#pragma once

#include <filesystem>
#include <set>
#include <string>

#include "kdart/kernel_set.h"

namespace kdart::test {

// manifest.json and every image of `set` under `folder`, which exists. No image offers a kernel named in `without`.
void write_kernel_set(const KernelSet& set, const std::filesystem::path& folder, const std::set<std::string>& without);

}  // namespace kdart::test
