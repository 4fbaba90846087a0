// Which image of a kernel set a device runs: one rule per vendor, each a function of text and numbers.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/runtime/amd_target.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "core/runtime/ptx_isa.h"
#include "kdart/kernel_set.h"

namespace kdart {

using detail::quote;

namespace {

// Why an image does not fit, or how well it does: the greater rank wins.
struct Verdict {
  std::array<std::uint64_t, 3> rank{};
  std::string reason;  // empty: it fits

  [[nodiscard]] bool fits() const { return reason.empty(); }
};

template <class... Args>
Verdict rejected(fmt::format_string<Args...> format, Args&&... args) {
  return {{}, detail::format(format, std::forward<Args>(args)...)};
}

// A decimal number that is all of `text`.
std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// --- CPU: "x86-64-v3"

struct CpuTarget {
  std::string_view architecture;
  std::uint32_t level = 1;
};

CpuTarget parse_cpu(std::string_view target) {
  const std::size_t dash = target.rfind("-v");
  if (dash == std::string_view::npos) return {target, 1};
  const auto level = number(target.substr(dash + 2));
  return level ? CpuTarget{target.substr(0, dash), *level} : CpuTarget{target, 1};
}

Verdict judge_cpu(const DeviceFacts& facts, const ManifestImage& image) {
  if (image.format != ImageFormat::elf_shared) {
    return rejected("a {} image is none that a CPU runs", to_string(image.format));
  }
  const CpuTarget device = parse_cpu(facts.target);
  const CpuTarget wanted = parse_cpu(image.target);
  if (wanted.architecture != device.architecture) {
    return rejected("it is for {}, and the device is {}", wanted.architecture, device.architecture);
  }
  if (wanted.level > device.level) {
    return rejected("it needs level {} of {}, and the device has level {}", wanted.level, wanted.architecture,
                    device.level);
  }
  return {{wanted.level, 0, 0}, {}};
}

// --- NVIDIA: "sm_90a", "compute_80"

struct SmTarget {
  std::uint32_t major = 0, minor = 0;
  char suffix = 0;  // 'a': exactly this device; 'f': this family; 0: this one and newer

  [[nodiscard]] std::uint32_t capability() const { return 10 * major + minor; }
};

std::optional<SmTarget> parse_sm(std::string_view target) {
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (!target.starts_with(prefix)) continue;
    target.remove_prefix(prefix.size());
    SmTarget sm;
    if (!target.empty() && (target.back() == 'a' || target.back() == 'f')) {
      sm.suffix = target.back();
      target.remove_suffix(1);
    }
    const auto digits = number(target);
    if (!digits || *digits < 10) return std::nullopt;
    sm.major = *digits / 10;
    sm.minor = *digits % 10;
    return sm;
  }
  return std::nullopt;
}

// Why the driver does not take PTX of this version, and which one would.
std::string newer_isa_text(const DeviceFacts& facts, std::uint32_t wanted) {
  const std::string found = facts.driver_version.empty()
                                ? detail::format("one that takes {}.{}", facts.ptx_isa / 10, facts.ptx_isa % 10)
                                : facts.driver_version;
  for (const detail::PtxIsa& known : detail::ptx_isas) {
    if (known.isa != wanted) continue;
    return detail::format("its PTX ISA {}.{} needs driver >= {} (CUDA {}.{}), found {}", wanted / 10, wanted % 10,
                          known.driver, known.cuda / 1000, known.cuda % 1000 / 10, found);
  }
  return detail::format("its PTX ISA {}.{} needs a driver that takes it, found {}", wanted / 10, wanted % 10, found);
}

Verdict judge_ptx(const DeviceFacts& facts, const ManifestImage& image, const SmTarget& device,
                  const SmTarget& wanted) {
  if (image.ptx_isa > facts.ptx_isa) return {{}, newer_isa_text(facts, image.ptx_isa)};
  if (wanted.capability() > device.capability()) {
    return rejected("its PTX is for {}, newer than the device's {}", image.target, facts.target);
  }
  return {{0, wanted.capability(), image.ptx_isa}, {}};
}

Verdict judge_nvidia(const DeviceFacts& facts, const ManifestImage& image) {
  const bool ptx = image.format == ImageFormat::ptx;
  if (!ptx && image.format != ImageFormat::cubin) {
    return rejected("a {} image is none that an NVIDIA GPU runs", to_string(image.format));
  }
  const auto device = parse_sm(facts.target);
  if (!device) return rejected("the device's target {} is no compute capability", quote(facts.target));
  const auto wanted = parse_sm(image.target);
  if (!wanted) return rejected("its target {} is no compute capability", quote(image.target));
  const bool same_family = wanted->major == device->major && wanted->minor <= device->minor;
  if (wanted->suffix == 'a' && wanted->capability() != device->capability()) {
    return rejected("{} runs on exactly that compute capability, and the device is {}", image.target, facts.target);
  }
  if (wanted->suffix == 'f' && !same_family) {
    return rejected("{} runs on later devices of its family alone, and the device is {}", image.target, facts.target);
  }
  if (ptx) return judge_ptx(facts, image, *device, *wanted);
  if (!same_family) {
    return rejected("{} runs on compute capability {}.{} to {}.9, and the device is {}", image.target, wanted->major,
                    wanted->minor, wanted->major, facts.target);
  }
  if (wanted->suffix == 'a') return {{2, 0, 0}, {}};
  return {{1, wanted->minor, wanted->suffix == 'f' ? 1U : 0U}, {}};
}

// --- AMD: "gfx942:sramecc+:xnack-", "gfx9-4-generic"

Verdict judge_amd(const DeviceFacts& facts, const ManifestImage& image) {
  if (image.format != ImageFormat::code_object) {
    return rejected("a {} image is none that an AMD GPU runs", to_string(image.format));
  }
  detail::AmdFit fit = detail::fit_amd_target(image.target, facts.target);
  return {{fit.rank[0], fit.rank[1], 0}, std::move(fit.reason)};
}

// --- SPIR-V: "spv1.5"

struct SpirvVersion {
  std::uint32_t major = 0, minor = 0;
  friend auto operator<=>(const SpirvVersion&, const SpirvVersion&) = default;
};

std::optional<SpirvVersion> parse_spirv(std::string_view target) {
  const std::size_t dot = target.find('.');
  if (!target.starts_with("spv") || dot == std::string_view::npos) return std::nullopt;
  const auto major = number(target.substr(3, dot - 3));
  const auto minor = number(target.substr(dot + 1));
  if (!major || !minor) return std::nullopt;
  return SpirvVersion{*major, *minor};
}

// What one kernel of an image asks of the device, "" when it is there.
std::string spirv_kernel_reason(const DeviceFacts& facts, const Manifest& manifest, const ImageKernel& kernel) {
  if (kernel.static_shared_bytes > facts.shared_memory_per_block) {
    return detail::format("kernel {} needs {} bytes of shared memory, and the device has {}", quote(kernel.name),
                          kernel.static_shared_bytes, facts.shared_memory_per_block);
  }
  if (kernel.min_threads > facts.threads_per_block) {
    return detail::format("kernel {} needs {} invocations per workgroup, and the device has {}", quote(kernel.name),
                          kernel.min_threads, facts.threads_per_block);
  }
  if (kernel.subgroup != 0 && (kernel.subgroup < facts.subgroup_min || kernel.subgroup > facts.subgroup_max)) {
    return detail::format("kernel {} needs subgroups of {}, and the device has {} to {}", quote(kernel.name),
                          kernel.subgroup, facts.subgroup_min, facts.subgroup_max);
  }
  for (const ManifestKernel& described : manifest.kernels) {
    if (described.name != kernel.name || described.argument_bytes <= facts.argument_bytes) continue;
    return detail::format("kernel {} needs {} bytes of arguments, and the device carries {}", quote(kernel.name),
                          described.argument_bytes, facts.argument_bytes);
  }
  return {};
}

Verdict judge_spirv(const DeviceFacts& facts, const Manifest& manifest, const ManifestImage& image) {
  if (image.format != ImageFormat::spirv)
    return rejected("a {} image is none that Vulkan runs", to_string(image.format));
  const auto device = parse_spirv(facts.target);
  if (!device) return rejected("the device's target {} is no SPIR-V version", quote(facts.target));
  const auto wanted = parse_spirv(image.target);
  if (!wanted) return rejected("its target {} is no SPIR-V version", quote(image.target));
  if (*wanted > *device) return rejected("it is {}, newer than the device's {}", image.target, facts.target);
  for (const std::string& capability : image.capabilities) {
    if (std::find(facts.capabilities.begin(), facts.capabilities.end(), capability) != facts.capabilities.end())
      continue;
    return rejected("it needs the capability {}, which the device lacks", quote(capability));
  }
  for (const ImageKernel& kernel : image.kernels) {
    if (std::string reason = spirv_kernel_reason(facts, manifest, kernel); !reason.empty())
      return {{}, std::move(reason)};
  }
  return {{image.capabilities.size(), wanted->major, wanted->minor}, {}};
}

Verdict judge(const DeviceFacts& facts, const Manifest& manifest, const ManifestImage& image) {
  if (manifest.backend != facts.backend) {
    return rejected("the set is for the backend {}, and the device is of {}", quote(manifest.backend),
                    quote(facts.backend));
  }
  if (facts.backend == "cpu") return judge_cpu(facts, image);
  if (facts.backend == "cuda") return judge_nvidia(facts, image);
  if (facts.backend == "hip") return judge_amd(facts, image);
  if (facts.backend == "vulkan") return judge_spirv(facts, manifest, image);
  return rejected("no rule chooses images for the backend {}", quote(facts.backend));
}

}  // namespace

Selection select_image(const DeviceFacts& facts, const Manifest& manifest) {
  std::vector<Verdict> verdicts;
  for (const ManifestImage& image : manifest.images) verdicts.push_back(judge(facts, manifest, image));

  Selection selection;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (!verdicts[i].fits()) continue;
    if (!selection.image || verdicts[i].rank > verdicts[*selection.image].rank) selection.image = i;
  }
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (selection.image == i) continue;
    const ManifestImage& image = manifest.images[i];
    std::string reason = verdicts[i].reason;
    if (verdicts[i].fits()) {
      const ManifestImage& better = manifest.images[*selection.image];
      reason = detail::format("it fits, but {} ({}) fits better", quote(better.file), better.target);
    }
    selection.rejected.push_back({image.file, image.target, std::move(reason)});
  }
  return selection;
}

}  // namespace kdart
