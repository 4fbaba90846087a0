// The files by which drivers make themselves known to the Vulkan loader.
#pragma once

#include <string>
#include <vector>

namespace kdart::vulkan {

// The driver files that the loader reads which are not JSON, with the environment variables and folders that it looks at.
// Some of its versions (1.3.239) fail altogether for one such file, and answer VK_ERROR_OUT_OF_HOST_MEMORY. Reads every
// driver file: for a failure's message. Never throws for a file that cannot be read.
[[nodiscard]] std::vector<std::string> broken_driver_files();

}  // namespace kdart::vulkan
