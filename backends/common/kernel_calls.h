// DriverBackend: modules and launches.
#pragma once

#include <utility>

#include "backends/common/device.h"

namespace kdart::common {

template <class Api>
GpuBackend::Native DriverBackend<Api>::do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) {
  const Current current(*context_);
  return naming_culprits("loading an image", [&] {
    return parts_->modules.insert(std::make_shared<Module>(*context_, parts_->snapshot, parts_->names, image, bytes));
  });
}

template <class Api>
GpuBackend::KernelLoad DriverBackend<Api>::do_get_kernel(Native module, const ImageKernel& kernel,
                                                         const ContractKernel&) {
  const Current current(*context_);
  auto& image = *detail::object_at<Module>(module);
  return naming_culprits("looking up a kernel", [&] {
    Kernel& found = image.get(kernel.name, kernel.symbol);
    KernelLoad load;
    load.kernel = detail::native_of(&found);
    load.max_threads = found.max_threads();
    load.static_shared_bytes = found.static_shared_bytes();
    for (const KernelArgument& argument : image.arguments(found, kernel.symbol))
      load.arguments.push_back({argument.offset, argument.size});
    return load;
  });
}

template <class Api>
void DriverBackend<Api>::do_unload_image(Native module) {
  const Current current(*context_);
  try {
    wait_for_all();
  } catch (const Error& error) {
    if (!is_sticky(error.code())) throw;
    set_sticky(error);
  }
  parts_->modules.remove(module);
}

template <class Api>
void DriverBackend<Api>::do_prepare(Native kernel, Dim3, std::uint32_t shared_bytes) {
  const Current current(*context_);
  naming_culprits("preparing a kernel", [&] { detail::object_at<Kernel>(kernel)->allow_shared(shared_bytes); });
}

template <class Api>
void DriverBackend<Api>::do_launch(Native kernel, const LaunchRecord& record, Native stream) {
  const Current current(*context_);
  Kernel& target = *detail::object_at<Kernel>(kernel);
  DriverStream<Api>& queue = stream_of(stream);
  if (queue.capturing()) {
    queue.capture->add(target);
  } else if (options().synchronous_launches) {
    wait_for_all();  // a fault that comes now is this launch's
  }
  naming_culprits("preparing a kernel", [&] { target.allow_shared(record.shared_bytes); });

  const Result result = Api::launch(driver(), target.function(), record, queue.get());
  if (result != Api::success) [[unlikely]]
    fail(result, detail::format("launching kernel '{}'", *target.name()));
  queue.launched.add(target.name());
}

}  // namespace kdart::common
