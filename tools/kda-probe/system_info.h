// What a bug report says about machine and build.
#pragma once

#include "results.h"

namespace kdart::probe {

[[nodiscard]] SystemInfo system_info();

}  // namespace kdart::probe
