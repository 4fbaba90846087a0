// What holds of every kernel, whatever it computes.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "kdart/kda_kernels.h"
#include "tests/kda/kernels/catalogue.h"
#include "tests/kda/kernels/hard_inputs.h"
#include "tests/support/options.h"

namespace kdart::test {
namespace {

bool on_cpu() {
  return test_device().rfind("cpu", 0) == 0;
}

// The outputs of each kernel the runner has, in catalogue order.
std::vector<std::vector<std::byte>> outputs(KernelRunner& runner, bool smallest = false) {
  std::vector<std::vector<std::byte>> result;
  for (const CatalogueEntry& entry : catalogue()) {
    if (runner.has(entry.kernel)) result.push_back(entry.run(runner, smallest));
  }
  return result;
}

void check_equal(const std::vector<std::vector<std::byte>>& found,
                 const std::vector<std::vector<std::byte>>& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(catalogue()[i].kernel);
    CHECK(same_bits(found[i], expected[i]));
  }
}

}  // namespace

TEST_CASE("the catalogue of these tests has every kernel of the contract", "[kernel][no-device]") {
  const auto kernels = kernels::kda_contract().kernels;
  REQUIRE(catalogue().size() == kernels.size());
  for (std::size_t i = 0; i < kernels.size(); ++i) CHECK(catalogue()[i].kernel == kernels[i].name);
}

TEST_CASE("the hard inputs of these tests are for every kernel of the contract", "[kernel][no-device]") {
  std::set<std::string_view> found;
  for (const HardEntry& entry : hard_inputs()) found.insert(entry.kernel);
  std::set<std::string_view> expected;
  for (const auto& kernel : kernels::kda_contract().kernels) expected.insert(kernel.name);
  CHECK(found == expected);
}

TEST_CASE("the set that is built in lacks no kernel on the CPU", "[kernel]") {
  if (!on_cpu()) SKIP("other backends may leave out optional kernels");
  const KernelRunner runner;
  CHECK(runner.set()->missing().empty());
}

TEST_CASE("the same call twice gives the same bits", "[kernel][bits]") {
  KernelRunner runner;
  check_equal(outputs(runner), outputs(runner));
}

TEST_CASE("the loops inside a kernel cover what a grid leaves out, with the same bits", "[kernel][bits]") {
  KernelRunner runner;
  const auto expected = outputs(runner);
  for (const Dim3 grid : {Dim3{1, 1, 1}, Dim3{2, 3, 2}}) {
    runner.limit_grid(grid);
    check_equal(outputs(runner), expected);
  }
}

TEST_CASE("both CPU images give the same bits", "[kernel][bits][cpu]") {
  if (!on_cpu()) SKIP("images of the CPU set");
  OpenOptions options = device_options();
  options.cpu_target = "x86-64";
  KernelRunner baseline(options);
  CHECK(baseline.set()->image().target == "x86-64");
  KernelRunner best;
  if (best.set()->image().target == "x86-64") SKIP("this machine runs no other image than x86-64");
  CHECK(best.set()->image().target == "x86-64-v3");
  check_equal(outputs(best), outputs(baseline));
  for (const HardEntry& entry : hard_inputs()) {
    INFO(entry.kernel << ": " << entry.input);
    CHECK(same_bits(entry.run(best), entry.run(baseline)));
  }
}

TEST_CASE("both CPU engines give the same bits, with any number of workers", "[kernel][bits][cpu]") {
  if (!on_cpu()) SKIP("engines of the CPU backend");
  if (under_tsan) SKIP("ThreadSanitizer cannot follow fibers");
  OpenOptions options;
  options.cpu_engine = CpuEngine::fibers;
  options.cpu_threads = 1;
  KernelRunner fibers(options);
  const auto expected = outputs(fibers, true);
  const auto expected_large = outputs(fibers);
  options.cpu_threads = 3;
  KernelRunner more_workers(options);
  check_equal(outputs(more_workers), expected_large);
  options.cpu_engine = CpuEngine::threads;
  KernelRunner threads(options);
  check_equal(outputs(threads, true), expected);
  // Barriers among threads, at a shape with more than one block.
  std::set<std::string> compared;
  for (std::size_t i = 0; i < catalogue().size(); ++i) {
    const std::string kernel(catalogue()[i].kernel);
    if (kernel != "conv_decode" && kernel != "chunk_scan" && kernel != "o_norm") continue;
    INFO(kernel);
    CHECK(same_bits(catalogue()[i].run(threads, false), expected_large[i]));
    compared.insert(kernel);
  }
  CHECK(compared.size() == 3);
}

TEST_CASE("every kernel once at its smallest shape, on threads", "[kernel][tsan]") {
  OpenOptions options = device_options();
  options.cpu_engine = CpuEngine::threads;
  KernelRunner runner(options);
  for (const CatalogueEntry& entry : catalogue()) {
    INFO(entry.kernel);
    if (runner.has(entry.kernel)) CHECK_FALSE(entry.run(runner, true).empty());
  }
}

}  // namespace kdart::test
