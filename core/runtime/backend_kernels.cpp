// Loading a kernel set on a device.
#include <algorithm>
#include <utility>
#include <vector>

#include "core/runtime/backend_state.h"
#include "core/runtime/kernel_checks.h"
#include "core/runtime/messages.h"
#include "kdart/backend.h"

namespace kdart {

using detail::fail;

namespace {

std::string set_name(const KernelSet& set) {
  return detail::format("kernel set {} {} for {} ({})", set.manifest().set, set.manifest().version,
                        set.manifest().backend, set.origin());
}

[[noreturn]] void fail_no_image(const KernelSet& set, const DeviceFacts& facts, const Selection& selection) {
  std::string reasons;
  for (const RejectedImage& image : selection.rejected) {
    reasons += detail::format("\n  {} ({}): {}", image.file, image.target, image.reason);
  }
  if (reasons.empty()) reasons = "\n  it has no images";
  fail(ErrorCode::no_matching_image, "{}: no image runs on {} {}:{}", set_name(set), facts.backend, facts.target,
       reasons);
}

// The image's kernels, as far as the contract knows them, laid out as the contract says.
void check_layouts(const KernelSet& set, const ManifestImage& image) {
  const std::string name = set_name(set);
  for (const ImageKernel& kernel : image.kernels) {
    const ContractKernel* contract = set.contract().find(kernel.name);
    if (contract == nullptr) continue;
    const auto& stated = set.manifest().kernels;
    const auto found =
        std::find_if(stated.begin(), stated.end(), [&](const ManifestKernel& k) { return k.name == kernel.name; });
    if (found == stated.end()) {
      fail(ErrorCode::corrupt_image, "{}: kernel {} of image {} is not described", name, detail::quote(kernel.name),
           image.file);
    }
    detail::check_manifest_layout(*contract, *found, name);
  }
}

// The tightest of three limits, of which 0 states none.
std::uint32_t tightest(std::uint32_t device, std::uint32_t manifest, std::uint32_t driver) {
  std::uint32_t limit = device;
  if (manifest != 0) limit = std::min(limit, manifest);
  if (driver != 0) limit = std::min(limit, driver);
  return limit;
}

}  // namespace

GpuBackend::Native GpuBackend::open_module(const ManifestImage& image, std::span<const std::byte> bytes) {
  return state_->run([&] { return do_load_image(image, bytes); });
}

KernelHandle GpuBackend::open_kernel(Native module, std::string_view image, const ImageKernel& kernel,
                                     const ContractKernel& contract) {
  return state_->run([&] {
    const KernelLoad load = do_get_kernel(module, kernel, contract);
    if (!load.arguments.empty()) {
      std::vector<detail::StatedArgument> stated;
      stated.reserve(load.arguments.size());
      for (const KernelLoad::Argument& argument : load.arguments) stated.push_back({argument.offset, argument.size});
      detail::check_image_layout(contract, stated, image);
    }
    detail::KernelSlot slot;
    slot.native = load.kernel;
    slot.info.name = kernel.name;
    slot.info.contract = &contract;
    slot.info.static_shared_bytes = std::max(kernel.static_shared_bytes, load.static_shared_bytes);
    slot.info.min_threads = kernel.min_threads;
    slot.info.max_threads = tightest(info_.limits.threads_per_block, kernel.max_threads, load.max_threads);
    slot.info.tunables = kernel.tunables;
    return state_->kernels.insert(std::move(slot));
  });
}

void GpuBackend::close_module(Native module, std::span<const KernelHandle> kernels) noexcept {
  if (state_->forked()) return;  // what is there belongs to the parent
  try {
    // The module first: it waits for launched work. No check of the sticky error: a finished device lets go of what it can.
    do_unload_image(module);
  } catch (const Error& error) {
    if (is_sticky(error.code())) state_->set_sticky(error);
    log(LogSeverity::warning, error.what());
  } catch (...) {
    log(LogSeverity::warning, "a kernel image could not be unloaded");
  }
  for (const KernelHandle kernel : kernels) state_->kernels.remove(kernel);
}

std::shared_ptr<LoadedSet> GpuBackend::load(const std::shared_ptr<const KernelSet>& set) {
  return state_->run([&] {
    if (set == nullptr) fail(ErrorCode::invalid_argument, "load: the kernel set is null");
    std::shared_ptr<GpuBackend> self = weak_from_this().lock();
    if (self == nullptr) fail(ErrorCode::invalid_argument, "load: the backend is not held by a shared_ptr");
    const DeviceFacts facts = do_facts();
    Selection selection = select_image(facts, set->manifest());
    if (!selection.image) fail_no_image(*set, facts, selection);
    const ManifestImage& image = set->manifest().images[*selection.image];
    check_layouts(*set, image);
    const std::vector<std::byte> bytes = set->read_image(image);

    // From here on the object's destructor undoes what is done.
    const std::shared_ptr<LoadedSet> loaded(new LoadedSet(std::move(self), set, std::move(selection)));
    loaded->module_ = open_module(image, bytes);
    loaded->loaded_ = true;
    loaded->handles_.reserve(image.kernels.size());
    for (const ImageKernel& kernel : image.kernels) {
      const ContractKernel* contract = set->contract().find(kernel.name);
      if (contract == nullptr) {
        log(LogSeverity::info, detail::format("{}: kernel {} of image {} is not in the contract and is left out",
                                              set_name(*set), detail::quote(kernel.name), image.file));
        continue;
      }
      loaded->handles_.push_back(open_kernel(loaded->module_, image.file, kernel, *contract));
      loaded->kernels_.emplace(kernel.name, loaded->handles_.back());
    }
    return loaded;
  });
}

void GpuBackend::unload(LoadedSet& set) noexcept {
  if (!std::exchange(set.loaded_, false)) return;
  close_module(set.module_, set.handles_);
}

const KernelInfo& GpuBackend::kernel_info(KernelHandle kernel) const {
  return state_->run([&]() -> const KernelInfo& { return state_->kernel(kernel, "kernel_info").info; });
}

void GpuBackend::prepare(KernelHandle kernel, Dim3 block, std::uint32_t shared_bytes) {
  state_->run([&] {
    const detail::KernelSlot& slot = state_->kernel(kernel, "prepare");
    detail::check_block(slot.info, info_, block, shared_bytes);
    do_prepare(slot.native, block, shared_bytes);
  });
}

}  // namespace kdart
