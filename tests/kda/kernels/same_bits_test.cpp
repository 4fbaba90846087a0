// Every kernel of the set alone: the device under test against the CPU, which every other test holds to float64.
#include <catch2/catch_test_macros.hpp>

#include "tests/kda/exact_device.h"
#include "tests/kda/kernels/catalogue.h"
#include "tests/kda/kernels/hard_inputs.h"

namespace kdart::test {

TEST_CASE("every kernel has the CPU's bits", "[kernel][bits]") {
  KernelRunner there(open_exact_device());
  KernelRunner here(open_device("cpu:0"));
  for (const CatalogueEntry& entry : catalogue()) {
    if (!there.has(entry.kernel)) continue;
    INFO(entry.kernel);
    for (const bool smallest : {false, true}) CHECK(same_bits(entry.run(there, smallest), entry.run(here, smallest)));
  }
}

TEST_CASE("every kernel has the CPU's bits on hard inputs", "[kernel][bits][hard]") {
  KernelRunner there(open_exact_device());
  KernelRunner here(open_device("cpu:0"));
  for (const HardEntry& entry : hard_inputs()) {
    if (!there.has(entry.kernel)) continue;
    INFO(entry.kernel << ": " << entry.input);
    CHECK(same_bits(entry.run(there), entry.run(here)));
  }
}

}  // namespace kdart::test
