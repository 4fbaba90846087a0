// Keeping a driver's libraries in the process.
#pragma once

namespace kdart::vulkan {

// NVIDIA's driver leaves some of its thread-local storage behind each time that the loader, with its last instance,
// unloads it; after a dozen times the system cannot load it again ("no driver that starts"). Marks the libraries of it that
// are loaded now as never to be unloaded. Any thread; does nothing the second time.
void keep_nvidia_driver_loaded() noexcept;

}  // namespace kdart::vulkan
