// Every driver call of a walk through the whole interface, made to fail in turn.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string_view>

#include "kdart/error.h"
#include "tests/support/fake_driver.h"

namespace kdart::test {

struct SweepRules {
  std::function<std::unique_ptr<FakeDriver>()> make;
  // What may fail without the caller's knowledge: the driver's loss, or a matter of comfort.
  std::set<std::string_view> unseen;
  std::string_view pool_allocation;       // asked again when it has no memory
  std::string_view host_allocation;       // has no memory of the host's
  std::set<std::string_view> entering;    // calls that go to the device's context
  std::string_view leaving;               // and the one that goes back
  std::function<ErrorCode(int)> code_of;  // what a result has to become
};

// One walk for each call, in which it answers `result`, and from then on where that is `lasting`: the caller is told, the
// device works afterwards or says that it is finished, nothing is left over and nothing is current that was not.
void sweep(const SweepRules& rules, int result, bool lasting);
// One walk for each step, after which the driver has shut down.
void sweep_shut_down(const SweepRules& rules);

}  // namespace kdart::test
