#include "core/runtime/range_map.h"

#include <catch2/catch_test_macros.hpp>
#include <limits>
#include <random>
#include <vector>

namespace kdart::detail {
namespace {

constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max();

TEST_CASE("a range covers what lies wholly inside it", "[runtime][ranges]") {
  RangeMap map;
  REQUIRE(map.insert(1000, {100, RangeKind::allocation}));
  REQUIRE(map.insert(1100, {50, RangeKind::allocation}));
  CHECK(map.covers(1000, 100));
  CHECK(map.covers(1099, 1));
  CHECK(map.covers(1100, 50));
  CHECK_FALSE(map.covers(999, 1));
  CHECK_FALSE(map.covers(1150, 1));
  CHECK_FALSE(map.covers(1099, 2));  // neighbours are not one allocation
  CHECK_FALSE(map.covers(1000, top));
  CHECK_FALSE(map.covers(top, 1));
}

TEST_CASE("ranges that are empty, wrap or overlap are not inserted", "[runtime][ranges]") {
  RangeMap map;
  REQUIRE(map.insert(1000, {100, RangeKind::allocation}));
  CHECK_FALSE(map.insert(2000, {0, RangeKind::allocation}));
  CHECK_FALSE(map.insert(top - 5, {10, RangeKind::allocation}));
  for (const std::uint64_t address : {901U, 1000U, 1050U, 1099U})
    CHECK_FALSE(map.insert(address, {100, RangeKind::import}));
  CHECK_FALSE(map.insert(1020, {5, RangeKind::import}));
  CHECK_FALSE(map.insert(900, {1000, RangeKind::import}));
  CHECK(map.insert(900, {100, RangeKind::import}));
  CHECK(map.insert(1100, {100, RangeKind::import}));
  CHECK(map.all().size() == 3);
}

TEST_CASE("a range is removed by its first address and kind alone", "[runtime][ranges]") {
  RangeMap map;
  REQUIRE(map.insert(1000, {100, RangeKind::allocation}));
  CHECK_FALSE(map.remove(1000, RangeKind::import).has_value());
  CHECK_FALSE(map.remove(1001, RangeKind::allocation).has_value());
  CHECK_FALSE(map.remove(999, RangeKind::allocation).has_value());
  REQUIRE(map.remove(1000, RangeKind::allocation).has_value());
  CHECK_FALSE(map.remove(1000, RangeKind::allocation).has_value());
  CHECK_FALSE(map.covers(1000, 1));
}

TEST_CASE("the map agrees with a bitmap of the address space", "[runtime][ranges]") {
  std::mt19937 random(1);
  RangeMap map;
  std::vector<int> owner(400, -1);
  for (int step = 0; step < 3000; ++step) {
    const auto address = static_cast<std::size_t>(random() % 300 + 10);
    const auto bytes = static_cast<std::size_t>(random() % 20 + 1);
    bool free = true;
    bool one_owner = owner[address] >= 0;
    for (std::size_t i = address; i < address + bytes; ++i) {
      free = free && owner[i] < 0;
      one_owner = one_owner && owner[i] == owner[address];
    }
    REQUIRE(map.covers(address, bytes) == one_owner);
    REQUIRE(map.overlapping(address, bytes).has_value() == !free);
    REQUIRE(map.insert(address, {bytes, RangeKind::allocation}) == free);
    if (free) {
      for (std::size_t i = address; i < address + bytes; ++i) owner[i] = step;
    } else if (const auto entry = map.at_or_before(address); entry && step % 2 == 0) {
      REQUIRE(map.remove(entry->address, RangeKind::allocation).has_value());
      for (std::uint64_t i = 0; i < entry->range.bytes; ++i) owner[entry->address + i] = -1;
    }
  }
}

}  // namespace
}  // namespace kdart::detail
