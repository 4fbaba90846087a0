// The checks of device memory that state, workspace and layer share.
#include "core/kda/checks.h"

#include <catch2/catch_test_macros.hpp>

#include "kdart/owned.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_runner.h"
#include "tests/support/models.h"

namespace kdart::test {

TEST_CASE("an address must be there and aligned", "[kda][checks]") {
  const auto refused = [](std::initializer_list<std::string_view> words, DevicePtr memory, std::uint64_t alignment) {
    expect_error(ErrorCode::invalid_argument, words, [&] { detail::check_address("call", "part", memory, alignment); });
  };
  refused({"call", "part", "null"}, {}, 1);
  refused({"call", "part", "0x1002", "multiple of 4"}, DevicePtr(0x1002), 4);
  refused({"0x1001", "multiple of 2"}, DevicePtr(0x1001), 2);
  CHECK_NOTHROW(detail::check_address("call", "part", DevicePtr(0x1001), 1));
  CHECK_NOTHROW(detail::check_address("call", "part", DevicePtr(0x1010), 16));
}

TEST_CASE("a range must lie in one allocation or import", "[kda][checks]") {
  const auto device = open_test_device();
  const Buffer a(device, 4096);
  const auto check = [&](DevicePtr memory, std::uint64_t bytes) {
    detail::check_memory(*device, "call", "part", memory, bytes, 4);
  };
  const auto refused = [&](std::initializer_list<std::string_view> words, DevicePtr memory, std::uint64_t bytes) {
    expect_error(ErrorCode::invalid_argument, words, [&] { check(memory, bytes); });
  };
  CHECK_NOTHROW(check(a.get(), 4096));
  CHECK_NOTHROW(check(a.get().offset(4092), 4));
  refused({"call", "part", "4097", device->info().id}, a.get(), 4097);
  refused({"4096"}, a.get().offset(4), 4096);
  refused({"null"}, {}, 4);
  refused({"multiple of 4"}, a.get().offset(2), 4);
  // A length at which address + length wraps.
  refused({"18446744073709551615"}, a.get(), ~std::uint64_t{0});
  DevicePtr gone;
  {
    const Buffer b(device, 256);
    gone = b.get();
    CHECK_NOTHROW(check(gone, 256));
  }
  refused({"256"}, gone, 256);
}

TEST_CASE("ranges must not overlap", "[kda][checks]") {
  using detail::check_disjoint;
  const auto at = [](std::uint64_t address) { return DevicePtr(address); };
  CHECK_NOTHROW(check_disjoint("call", {}));
  CHECK_NOTHROW(check_disjoint("call", {{"a", at(0x1000), 16}}));
  // Neighbours, in either order.
  CHECK_NOTHROW(check_disjoint("call", {{"a", at(0x1010), 16}, {"b", at(0x1000), 16}, {"c", at(0x1020), 1}}));
  const auto refused = [&](std::initializer_list<std::string_view> words, std::vector<detail::MemoryRange> ranges) {
    expect_error(ErrorCode::invalid_argument, words, [&] { check_disjoint("call", ranges); });
  };
  refused({"call", "a (17 bytes at 0x1000)", "b (16 bytes at 0x1010)", "overlap"},
          {{"b", at(0x1010), 16}, {"a", at(0x1000), 17}});
  refused({"first", "second", "overlap"}, {{"first", at(0x1000), 16}, {"second", at(0x1000), 16}});
  // One inside another that is not its neighbour in order.
  refused({"outer", "inner", "overlap"},
          {{"outer", at(0x1000), 0x100}, {"none", at(0x2000), 4}, {"inner", at(0x1080), 4}});
  // Ranges up to the end of the address space.
  refused({"overlap"}, {{"top", at(0xFFFFFFFFFFFFFF00), 0x100}, {"below", at(0xFFFFFFFFFFFFFE00), 0x101}});
  CHECK_NOTHROW(
      check_disjoint("call", {{"top", at(0xFFFFFFFFFFFFFF00), 0x100}, {"below", at(0xFFFFFFFFFFFFFE00), 0x100}}));
}

TEST_CASE("a null backend or null weights are refused, not followed", "[kda][checks]") {
  const KdaConfig config = softplus_layer();
  const auto refused = [](std::string_view name, const auto& call) {
    expect_error(ErrorCode::invalid_argument, {name, "null"}, call);
  };
  const std::shared_ptr<GpuBackend> none;
  refused("KdaState", [&] { (void)KdaState(none, config); });
  refused("KdaState", [&] { (void)KdaState(none, config, DevicePtr(4), DevicePtr(8)); });
  refused("KdaWorkspace", [&] { (void)KdaWorkspace(none, config, 1); });
  refused("KdaWorkspace", [&] { (void)KdaWorkspace(none, config, DevicePtr(256), 1); });
  refused("KdaDeviceWeights", [&] { (void)KdaDeviceWeights::upload(none, KdaWeights{}); });
  refused("KdaLayer", [&] { (void)KdaLayer(std::shared_ptr<const KdaDeviceWeights>()); });
}

}  // namespace kdart::test
