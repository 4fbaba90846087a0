// Objects that a process gives up without destroying them.
#pragma once

namespace kdart::detail {

// Keeps pointing at what cannot be destroyed any more: in a forked child, whose driver threads are gone; or at the end of
// the process, when a driver has shut down. So leak checkers do not report what is meant. Any thread.
void abandon(void* object) noexcept;

}  // namespace kdart::detail
