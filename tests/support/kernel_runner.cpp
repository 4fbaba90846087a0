#include "tests/support/kernel_runner.h"

#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>

#include "core/runtime/format.h"
#include "kdart/kda_kernels.h"
#include "tests/support/device.h"
#include "tools/reference/judge.h"

namespace kdart::test {
namespace {

constexpr std::size_t guard_bytes = 256;  // a multiple of every alignment a contract may ask for
constexpr std::byte guard_value{0xA5};

std::uint64_t pointer_argument(const LaunchRecord& record, const ContractArg& arg) {
  std::uint64_t address = 0;
  std::memcpy(&address, record.arguments.data() + arg.offset, sizeof address);
  return address;
}

std::size_t element_bytes(std::string_view element) {
  return element == "bf16" ? 2 : 4;
}

}  // namespace

OpenOptions device_options() {
  OpenOptions options;
  options.cpu_engine = under_tsan ? CpuEngine::threads : CpuEngine::fibers;
  return options;
}

GuardedMemory::GuardedMemory(const std::shared_ptr<GpuBackend>& backend, std::span<const std::byte> contents,
                             std::uint32_t alignment, Use use)
    : backend_(backend),
      contents_(contents.begin(), contents.end()),
      use_(use),
      offset_(guard_bytes + alignment),
      memory_(backend, offset_ + contents.size() + guard_bytes) {
  std::vector<std::byte> image(memory_.bytes(), guard_value);
  std::copy(contents.begin(), contents.end(), image.begin() + static_cast<std::ptrdiff_t>(offset_));
  backend->copy_h2d(memory_.get(), image.data(), image.size());
}

std::vector<std::byte> GuardedMemory::read() const {
  std::vector<std::byte> result(size());
  backend_->copy_d2h(result.data(), data(), result.size());
  return result;
}

std::string GuardedMemory::damage() const {
  std::vector<std::byte> image(memory_.bytes());
  backend_->copy_d2h(image.data(), memory_.get(), image.size());
  for (std::size_t i = 0; i < image.size(); ++i) {
    const bool guard = i < offset_ || i >= offset_ + size();
    if (guard && image[i] != guard_value) {
      return detail::format("byte {} of a buffer of {} was written", static_cast<std::int64_t>(i - offset_), size());
    }
    if (!guard && use_ == Use::input && image[i] != contents_[i - offset_]) {
      return detail::format("byte {} of an input of {} was changed", i - offset_, size());
    }
  }
  return {};
}

KernelRunner::KernelRunner(const OpenOptions& options, std::shared_ptr<const KernelSet> set)
    : KernelRunner(open_test_device(options), std::move(set)) {}

KernelRunner::KernelRunner(std::shared_ptr<GpuBackend> backend, std::shared_ptr<const KernelSet> set)
    : backend_(std::move(backend)) {
  if (set == nullptr) set = KernelSet::embedded(kernels::kda_contract(), backend_->info().backend);
  set_ = backend_->load(set);
  stream_ = OwnedStream(backend_);
}

std::shared_ptr<GuardedMemory> KernelRunner::add(std::span<const std::byte> contents, std::uint32_t alignment,
                                                 GuardedMemory::Use use) {
  std::erase_if(memory_, [](const auto& memory) { return memory.expired(); });
  auto memory = std::make_shared<GuardedMemory>(backend_, contents, alignment, use);
  memory_.push_back(memory);
  return memory;
}

void KernelRunner::check_addresses(const LaunchRecord& record, const ContractKernel& contract) {
  std::array<std::uint64_t, max_kernel_arguments> extents{};
  contract.extents(record.arguments.data(), extents.data());
  for (std::size_t i = 0; i < contract.args.size(); ++i) {
    const ContractArg& arg = contract.args[i];
    if (arg.kind != ArgKind::ptr) continue;
    const std::uint64_t address = pointer_argument(record, arg);
    for (const auto& weak : memory_) {
      const auto memory = weak.lock();
      if (memory == nullptr || memory->data().address() != address) continue;
      INFO(contract.name << ": " << arg.name);
      REQUIRE(address % arg.alignment == 0);
      REQUIRE(address % (2 * std::uint64_t{arg.alignment}) != 0);
      REQUIRE(memory->size() >= extents[i] * element_bytes(arg.element));
    }
  }
}

void KernelRunner::submit(KernelLaunch launch, const ContractKernel& contract) {
  check_addresses(launch.record(), contract);
  const Dim3 grid = launch.record().grid;
  launch.grid(std::min(grid.x, grid_limit_.x), std::min(grid.y, grid_limit_.y), std::min(grid.z, grid_limit_.z));
  launch.launch(stream_.get());
}

void KernelRunner::verify() {
  backend_->synchronize(stream_.get());
  for (const auto& weak : memory_) {
    if (const auto memory = weak.lock(); memory != nullptr) {
      const std::string damage = memory->damage();
      INFO(damage);
      REQUIRE(damage.empty());
    }
  }
}

void expect_f32(std::string_view what, std::span<const float> x, std::span<const double> truth,
                std::initializer_list<std::span<const float>> inputs) {
  const auto comparison = reference::compare_f32(x, truth, reference::largest_magnitude(inputs));
  INFO(what << ": " << comparison.text());
  CHECK(comparison.pass);
}

void expect_bf16(std::string_view what, std::span<const bf16> x, std::span<const double> truth) {
  const auto denormals = denormals_may_flush() ? reference::Denormals::may_flush : reference::Denormals::kept;
  const auto comparison = reference::compare_bf16(x, truth, denormals);
  INFO(what << ": " << comparison.text());
  CHECK(comparison.pass);
}

}  // namespace kdart::test
