#include <fmt/ranges.h>

#include <algorithm>

#include "commands.h"
#include "core/runtime/format.h"
#include "exit_codes.h"
#include "kernel_sets.h"

namespace kdart::probe {
namespace {

struct Target {
  DeviceFacts facts;
  std::shared_ptr<const KernelSet> set;
};

bool known_backend(std::string_view name) {
  const std::vector<std::string_view> names = backend_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A target by name. Whatever else selection looks at does not stand in its way.
Target named_target(const KernelsOptions& options) {
  DeviceFacts facts;
  facts.backend = options.backend;
  facts.target = *options.target;
  facts.ptx_isa = std::numeric_limits<std::uint32_t>::max();
  facts.shared_memory_per_block = std::numeric_limits<std::uint64_t>::max();
  facts.threads_per_block = std::numeric_limits<std::uint32_t>::max();
  try {
    return {facts, find_kernel_set(options.backend, options.kernel_set)};
  } catch (const Failure& failure) {
    if (options.kernel_set || known_backend(options.backend)) throw;
    throw Failure(std::string(to_string(ErrorCode::driver_missing)),
                  detail::format("this build has neither a backend nor a kernel set '{}'; its backends are: {}",
                                 options.backend, fmt::join(backend_names(), ", ")),
                  ExitCode::driver);
  }
}

// A device that is there; its image is loaded, so that what is listed is what runs.
Target open_target(const KernelsOptions& options) {
  const auto backend = during(Stage::opening_device, [&] { return open_device(options.device); });
  const auto set = find_kernel_set(backend->info().backend, options.kernel_set);
  return during(Stage::reading_input, [&] {
    static_cast<void>(backend->load(set));
    return Target{backend->facts(), set};
  });
}

void check_names(const Contract& contract, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (contract.find(name) == nullptr) {
      throw Failure(std::string(to_string(ErrorCode::kernel_not_found)),
                    detail::format("--without: the contract of set '{}' has no kernel '{}'", contract.set, name),
                    ExitCode::input);
    }
  }
}

[[noreturn]] void refuse(const SetChoice& choice, const DeviceFacts& facts) {
  std::string message = detail::format("no image of kernel set '{}' {} ({}) runs on {} {}", choice.set.name,
                                       choice.set.version, choice.set.origin, facts.backend, facts.target);
  for (const RejectedImage& image : choice.rejected) {
    message += detail::format("\n  {} ({}): {}", image.file, image.target, image.reason);
  }
  throw Failure(std::string(to_string(ErrorCode::no_matching_image)), message, ExitCode::input);
}

std::uint32_t argument_bytes(const Manifest& manifest, std::string_view kernel) {
  for (const ManifestKernel& stated : manifest.kernels) {
    if (stated.name == kernel) return stated.argument_bytes;
  }
  return 0;
}

}  // namespace

KernelsResult run_kernels(const KernelsOptions& options) {
  const Target target = options.target ? named_target(options) : open_target(options);
  const Contract& contract = target.set->contract();
  const Manifest& manifest = target.set->manifest();
  check_names(contract, options.without);
  const SetChoice choice = choose(*target.set, target.facts);
  if (!choice.image) refuse(choice, target.facts);

  KernelsResult result{choice.set, target.facts.target, *choice.image, choice.rejected, {}, {}};
  const auto image = std::find_if(manifest.images.begin(), manifest.images.end(),
                                  [&](const ManifestImage& i) { return i.file == choice.image->file; });
  for (const ContractKernel& kernel : contract.kernels) {
    const auto found = std::find_if(image->kernels.begin(), image->kernels.end(),
                                    [&](const ImageKernel& k) { return k.name == kernel.name; });
    const bool excluded =
        std::find(options.without.begin(), options.without.end(), kernel.name) != options.without.end();
    if (found == image->kernels.end() || excluded) {
      result.missing.emplace_back(kernel.name);
    } else {
      result.kernels.push_back(
          {found->name, found->registers, found->static_shared_bytes, argument_bytes(manifest, found->name)});
    }
  }
  return result;
}

}  // namespace kdart::probe
