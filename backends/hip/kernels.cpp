// Images and launches: what the HIP runtime takes in its own form.
#include <array>

#include "backends/hip/code_object.h"
#include "backends/hip/traits.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::hip {

// HIP ends the process over an image for another GPU, and over one that is none: every byte is looked at before it sees one.
common::LoadedImage<HipApi> HipApi::load(const Context& context, const Snapshot& device, const ManifestImage& image,
                                         std::span<const std::byte> bytes) {
  if (image.format != ImageFormat::code_object) {
    detail::fail(ErrorCode::invalid_image, "image {}: a {} image is none that HIP loads", detail::quote(image.file),
                 to_string(image.format));
  }
  const std::span<const std::byte> code = find_code_object(bytes, device.target, image.file);
  const CodeObject object = read_code_object(code, image.file);
  check_target(object, device.target, image.file);

  common::LoadedImage<HipApi> loaded;
  for (const CodeObjectKernel& kernel : object.kernels) loaded.stated.emplace(kernel.symbol, kernel.arguments);
  const hipError_t result = context.driver().module_load_data(&loaded.module, code.data());
  if (result != hipSuccess) {
    const std::string name = result_name(result);
    throw Error(code_of(result),
                detail::format("image {} ({}): the HIP runtime ({}) does not load it on {}, {}: {} ({})",
                               detail::quote(image.file), image.target, version_text(device.version), device.name,
                               device.target, name, result),
                result, name);
  }
  return loaded;
}

hipError_t HipApi::launch(const Functions& driver, Function function, const LaunchRecord& record, Stream stream) {
  std::size_t bytes = record.argument_bytes;
  std::array<void*, 5> packed{HIP_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(record.arguments.data()),
                              HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
  return driver.launch_kernel(function, record.grid.x, record.grid.y, record.grid.z, record.block.x, record.block.y,
                              record.block.z, record.shared_bytes, stream, nullptr,
                              bytes == 0 ? nullptr : packed.data());
}

}  // namespace kdart::hip
