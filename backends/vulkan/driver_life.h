// The driver in the process: kept loaded where it must be, and not called any more when the process ends.
#pragma once

#include "backends/vulkan/functions.h"

namespace kdart::vulkan {

// NVIDIA's driver leaves some of its thread-local storage behind each time that the loader, with its last instance,
// unloads it; after some thirty times the system cannot load it again ("no driver that starts"). Marks the libraries of it
// that are loaded now as never to be unloaded. Any thread; does nothing the second time.
void keep_nvidia_driver_loaded() noexcept;

// Drivers shut down in exit handlers of their own, and crash when they are called after that: by the destructor of an
// object that lives longer, a static one say. `note_driver_in_use` is called once a device has been made; from the moment
// in exit() that comes just before that driver's handlers, `driver_is_gone` is true, and what is left is not released.
void note_driver_in_use(VkDriverId driver) noexcept;
[[nodiscard]] bool driver_is_gone() noexcept;

}  // namespace kdart::vulkan
