// AMD's target ids, "gfx942:sramecc+:xnack-" or "gfx9-4-generic", and which code runs on which device.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kdart::detail {

struct AmdTarget {
  std::string_view processor;   // in the text that was parsed
  char sramecc = 0, xnack = 0;  // '+', '-', or 0 where not stated
  friend bool operator==(const AmdTarget&, const AmdTarget&) = default;
};

// Nothing for what is no target id. A processor is "gfx" and then small letters, digits and dashes.
[[nodiscard]] std::optional<AmdTarget> parse_amd_target(std::string_view target);

// Whether code for one target runs on a device, and how well: the greater rank wins.
struct AmdFit {
  std::array<std::uint64_t, 2> rank{};
  std::string reason;  // why it does not run; empty: it does

  [[nodiscard]] bool fits() const { return reason.empty(); }
};

// The processors are the same, or the code's is a generic one that covers the device's, which ranks last. A feature is
// not stated by the code, or is as on the device; code that states more ranks higher.
[[nodiscard]] AmdFit fit_amd_target(std::string_view code, std::string_view device);

}  // namespace kdart::detail
