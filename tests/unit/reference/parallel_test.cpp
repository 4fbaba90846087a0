#include "tools/reference/parallel.h"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
#include <vector>

namespace kdart::reference {
namespace {

constexpr double little = 1, much = 1e12;  // operations: on the calling thread, and on all cores

TEST_CASE("reference: every piece of work is done once") {
  for (const double operations : {little, much}) {
    for (const std::size_t count : {0U, 1U, 2U, 1000U}) {
      std::vector<std::atomic<int>> done(count);
      parallel_for(count, operations, [&](std::size_t i) { ++done[i]; });
      for (const auto& times : done) CHECK(times == 1);
    }
  }
}

TEST_CASE("reference: what a piece throws ends the work and reaches the caller") {
  for (const double operations : {little, much}) {
    std::atomic<std::size_t> done{0};
    const auto work = [&](std::size_t i) {
      if (i == 3) throw std::runtime_error("the fourth");
      ++done;
    };
    CHECK_THROWS_AS(parallel_for(100000, operations, work), std::runtime_error);
    CHECK(done < 99999);
  }
}

}  // namespace
}  // namespace kdart::reference
