#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/support/fake_cuda.h"
#include "tests/unit/common/sweep.h"

namespace kdart::test {
namespace {

SweepRules rules() {
  return {[] { return std::make_unique<FakeCuda>(); },
          {
              "cuDriverGetVersion",     // asked again
              "cuDeviceGetPCIBusId",    // ""
              "cuCtxPopCurrent_v2",     // at the end of a call that is done
              "cuPointerGetAttribute",  // memory that the driver does not know
              "cuStreamEndCapture",     // of a capture that is thrown away
              "cuStreamDestroy_v2",
              "cuEventDestroy_v2",
              "cuGraphDestroy",
              "cuGraphExecDestroy",
              "cuModuleUnload",
              "cuMemPoolDestroy",
              "cuDevicePrimaryCtxRelease_v2",
          },
          "cuMemAllocFromPoolAsync",
          "cuMemHostAlloc",
          {"cuCtxGetCurrent", "cuCtxPushCurrent_v2"},
          "cuCtxPopCurrent_v2",
          [](int result) {
            switch (result) {
              case 2:
                return ErrorCode::out_of_device_memory;
              case 46:
                return ErrorCode::no_device;
              case 700:
              case 719:
                return ErrorCode::device_fault;
              default:
                return ErrorCode::driver_error;
            }
          }};
}

}  // namespace

TEST_CASE("cuda: any driver call may fail once, and the device goes on", "[cuda][no-device]") {
  sweep(rules(), GENERATE(2, 46, 999), false);
}

TEST_CASE("cuda: any driver call may report a fault, and the device is finished", "[cuda][no-device]") {
  sweep(rules(), GENERATE(700, 719), false);
}

TEST_CASE("cuda: from any driver call on the context may be lost", "[cuda][no-device]") {
  sweep(rules(), GENERATE(700, 719), true);
}

TEST_CASE("cuda: the driver may shut down at any call", "[cuda][no-device]") {
  sweep_shut_down(rules());
}

}  // namespace kdart::test
