// Finding a kernel set and what a device gets from it: what several verbs share.
#pragma once

#include <memory>
#include <string_view>

#include "kdart/kernel_set.h"
#include "options.h"
#include "results.h"

namespace kdart::probe {

// The set of the directory, or the one built in for the backend. Throws Failure.
[[nodiscard]] std::shared_ptr<const KernelSet> find_kernel_set(std::string_view backend,
                                                               const KernelSetDirectory& directory);
// Reads the directory's manifest, if there is one to read, and forgets it: a wrong --kernel-set is an error of every
// verb, whatever that verb does with it. Throws Failure.
void check_kernel_set(const KernelSetDirectory& directory);
[[nodiscard]] KernelSetName name_of(const KernelSet& set);
[[nodiscard]] SetChoice choose(const KernelSet& set, const DeviceFacts& facts);

}  // namespace kdart::probe
