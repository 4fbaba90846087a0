// What was built into this library: the tables that cmake/Registry.cmake generates.
//
// They are constant data reached through functions, never static initialisers, so that a static library keeps them and
// nothing runs before main. A build may leave any backend or set out; both tables may be empty.
#pragma once

#include <span>
#include <string_view>

#include "core/runtime/embedded_kernel_set.h"

namespace kdart {

class BackendFactory;  // kdart/registry.h

}  // namespace kdart

namespace kdart::detail {

struct BackendEntry {
  std::string_view name;         // "cpu", as in the device id "cpu:0"
  BackendFactory& (*factory)();  // defined by the backend as `BackendFactory& <name>_backend_factory()`
};

// In the order in which the library lists its backends.
[[nodiscard]] std::span<const BackendEntry> backend_entries();

// Every set embedded in the library; the pointers are never null.
[[nodiscard]] std::span<const EmbeddedKernelSet* const> embedded_kernel_sets();

}  // namespace kdart::detail
