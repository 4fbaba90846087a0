#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/unit/common/sweep.h"
#include "tests/unit/hip/fake_hip.h"

namespace kdart::test {
namespace {

SweepRules rules() {
  return {[] { return std::make_unique<FakeHip>(); },
          {
              "hipDeviceGetPCIBusId",  // ""
              "hipStreamEndCapture",   // of a capture that is thrown away
              "hipStreamDestroy",
              "hipEventDestroy",
              "hipGraphDestroy",
              "hipGraphExecDestroy",
              "hipModuleUnload",
              "hipMemPoolDestroy",
          },
          "hipMallocFromPoolAsync",
          "hipHostMalloc",
          {"hipGetDevice", "hipSetDevice"},
          "",
          [](int result) {
            switch (result) {
              case 2:
                return ErrorCode::out_of_device_memory;
              case 700:
              case 719:
                return ErrorCode::device_fault;
              default:
                return ErrorCode::driver_error;
            }
          }};
}

}  // namespace

TEST_CASE("hip: any call may fail once, and the device goes on", "[hip][no-device]") {
  sweep(rules(), GENERATE(2, 98, 999), false);
}

TEST_CASE("hip: any call may report a fault, and the device is finished", "[hip][no-device]") {
  sweep(rules(), GENERATE(700, 719), false);
}

TEST_CASE("hip: from any call on the context may be lost", "[hip][no-device]") {
  sweep(rules(), GENERATE(700, 719), true);
}

TEST_CASE("hip: the runtime may shut down at any call", "[hip][no-device]") {
  sweep_shut_down(rules());
}

}  // namespace kdart::test
