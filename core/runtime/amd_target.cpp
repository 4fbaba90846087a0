#include "core/runtime/amd_target.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/runtime/format.h"
#include "core/runtime/messages.h"

namespace kdart::detail {
namespace {

struct GenericTarget {
  std::string_view name;
  std::span<const std::string_view> processors;
};

// LLVM's list of generic code object targets (User Guide for AMDGPU Backend).
constexpr std::array<std::string_view, 6> gfx9{"gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"};
constexpr std::array<std::string_view, 4> gfx9_4{"gfx940", "gfx941", "gfx942", "gfx950"};
constexpr std::array<std::string_view, 4> gfx10_1{"gfx1010", "gfx1011", "gfx1012", "gfx1013"};
constexpr std::array<std::string_view, 7> gfx10_3{"gfx1030", "gfx1031", "gfx1032", "gfx1033",
                                                  "gfx1034", "gfx1035", "gfx1036"};
constexpr std::array<std::string_view, 8> gfx11{"gfx1100", "gfx1101", "gfx1102", "gfx1103",
                                                "gfx1150", "gfx1151", "gfx1152", "gfx1153"};
constexpr std::array<std::string_view, 2> gfx12{"gfx1200", "gfx1201"};
constexpr std::array<std::string_view, 2> gfx12_5{"gfx1250", "gfx1251"};
constexpr std::array<GenericTarget, 7> generic_targets{{{"gfx9-generic", gfx9},
                                                        {"gfx9-4-generic", gfx9_4},
                                                        {"gfx10-1-generic", gfx10_1},
                                                        {"gfx10-3-generic", gfx10_3},
                                                        {"gfx11-generic", gfx11},
                                                        {"gfx12-generic", gfx12},
                                                        {"gfx12-5-generic", gfx12_5}}};

bool covers(std::string_view generic, std::string_view processor) {
  return std::any_of(generic_targets.begin(), generic_targets.end(), [&](const GenericTarget& target) {
    return target.name == generic &&
           std::find(target.processors.begin(), target.processors.end(), processor) != target.processors.end();
  });
}

bool is_processor(std::string_view text) {
  constexpr std::size_t longest = 64;
  return text.starts_with("gfx") && text.size() > 3 && text.size() <= longest &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
}

template <class... Args>
AmdFit rejected(fmt::format_string<Args...> text, Args&&... args) {
  return {{}, detail::format(text, std::forward<Args>(args)...)};
}

}  // namespace

std::optional<AmdTarget> parse_amd_target(std::string_view target) {
  AmdTarget amd;
  std::size_t colon = target.find(':');
  amd.processor = target.substr(0, colon);
  if (!is_processor(amd.processor)) return std::nullopt;
  while (colon != std::string_view::npos) {
    target.remove_prefix(colon + 1);
    colon = target.find(':');
    const std::string_view feature = target.substr(0, colon);
    if (feature.empty() || (feature.back() != '+' && feature.back() != '-')) return std::nullopt;
    const std::string_view name = feature.substr(0, feature.size() - 1);
    char* setting = name == "sramecc" ? &amd.sramecc : name == "xnack" ? &amd.xnack : nullptr;
    if (setting == nullptr || *setting != 0) return std::nullopt;  // unknown, or stated twice
    *setting = feature.back();
  }
  return amd;
}

AmdFit fit_amd_target(std::string_view code, std::string_view device) {
  const auto has = parse_amd_target(device);
  if (!has) return rejected("the device's target {} is no AMD target", quote(device));
  const auto wanted = parse_amd_target(code);
  if (!wanted) return rejected("its target {} is no AMD target", quote(code));
  const bool generic = wanted->processor.ends_with("-generic");
  if (generic ? !covers(wanted->processor, has->processor) : wanted->processor != has->processor)
    return rejected("it is for {}, and the device is {}", wanted->processor, has->processor);
  const auto setting = [](char c) { return c == '+' ? "on" : c == '-' ? "off" : "absent"; };
  if (wanted->xnack != 0 && wanted->xnack != has->xnack)
    return rejected("it needs xnack {}, which is {} on the device", setting(wanted->xnack), setting(has->xnack));
  if (wanted->sramecc != 0 && wanted->sramecc != has->sramecc)
    return rejected("it needs sramecc {}, which is {} on the device", setting(wanted->sramecc), setting(has->sramecc));
  const unsigned stated = (wanted->sramecc != 0 ? 1U : 0U) + (wanted->xnack != 0 ? 1U : 0U);
  return {{generic ? 0U : 1U, stated}, {}};
}

}  // namespace kdart::detail
