#include "core/runtime/handle_table.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <thread>
#include <vector>

#include "kdart/types.h"

namespace kdart::detail {
namespace {

using Table = HandleTable<int, Stream>;

TEST_CASE("a handle finds its own value until it is removed, and nothing afterwards", "[runtime][handles]") {
  Table table(1);
  const Stream a = table.insert(7);
  const Stream b = table.insert(8);
  REQUIRE(table.find(a) != nullptr);
  CHECK(*table.find(a) == 7);
  CHECK(*table.find(b) == 8);
  CHECK(table.remove(a) == 7);
  CHECK(table.find(a) == nullptr);
  CHECK_FALSE(table.remove(a).has_value());
  CHECK(*table.find(b) == 8);

  const Stream again = table.insert(9);
  CHECK(again.index() == a.index());  // the slot is used anew, under another generation
  CHECK(again != a);
  CHECK(table.find(a) == nullptr);
  CHECK(*table.find(again) == 9);
}

TEST_CASE("empty, invented and foreign handles find nothing", "[runtime][handles]") {
  Table table(1);
  Table other(2);
  const Stream mine = table.insert(1);
  const Stream foreign = other.insert(2);
  CHECK(table.find(Stream{}) == nullptr);
  CHECK(table.find(Stream(mine.index(), mine.generation() + 1)) == nullptr);
  CHECK(table.find(Stream(0xFFFF'FFFF, mine.generation())) == nullptr);
  CHECK(table.find(Stream(500, mine.generation())) == nullptr);
  CHECK(table.find(Stream(5, 0)) == nullptr);  // a free slot's generation
  REQUIRE(foreign.index() == mine.index());
  CHECK(table.find(foreign) == nullptr);
  CHECK(other.find(mine) == nullptr);
}

TEST_CASE("values keep their address while the table grows over many chunks", "[runtime][handles]") {
  Table table(3);
  const Stream first = table.insert(-1);
  const int* address = table.find(first);
  std::vector<Stream> handles;
  for (int i = 0; i < 5000; ++i) handles.push_back(table.insert(i));
  CHECK(table.find(first) == address);
  for (int i = 0; i < 5000; ++i) REQUIRE(*table.find(handles[static_cast<std::size_t>(i)]) == i);
  CHECK(table.handles().size() == 5001);
  for (const Stream handle : handles) table.remove(handle);
  CHECK(table.handles() == std::vector{first});
}

TEST_CASE("a slot whose generations are used up is never given out again", "[runtime][handles]") {
  Table table(Table::max_tag);
  std::set<std::uint32_t> generations;
  const Stream first = table.insert(0);
  table.remove(first);
  for (std::uint32_t i = 1; i < Table::max_count; ++i) {
    const Stream handle = table.insert(0);
    if (handle.index() != first.index()) FAIL("the slot was retired after " << i << " of " << Table::max_count);
    if (handle.generation() <= first.generation()) FAIL("generation " << handle.generation() << " came twice");
    table.remove(handle);
  }
  CHECK(table.insert(0).index() != first.index());
  CHECK(table.find(first) == nullptr);
}

TEST_CASE("handles are found while other threads insert and remove", "[runtime][handles][tsan]") {
  Table table(4);
  const Stream kept = table.insert(42);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        const Stream mine = table.insert(i);
        if (*table.find(mine) != i) ++wrong;
        table.remove(mine);
        if (table.find(mine) != nullptr) ++wrong;
      }
    });
  }
  std::thread reader([&] {
    while (!stop) {
      const int* value = table.find(kept);
      if (value == nullptr || *value != 42) ++wrong;
    }
  });
  for (std::thread& thread : threads) thread.join();
  stop = true;
  reader.join();
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace kdart::detail
