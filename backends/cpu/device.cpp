#include "backends/cpu/device.h"
#include "core/runtime/abandon.h"
#include "core/runtime/format.h"

namespace kdart::cpu {
namespace {

constexpr std::uint32_t max_threads = 4096;

std::uint32_t threads_in_force(const CpuSnapshot& snapshot, const OpenOptions& options) {
  if (options.cpu_threads > max_threads) {
    throw Error(ErrorCode::invalid_argument,
                detail::format("cpu_threads is {}, at most {} can be asked for", options.cpu_threads, max_threads));
  }
  return options.cpu_threads == 0 ? snapshot.cores : options.cpu_threads;
}

}  // namespace

CpuBackend::CpuBackend(const CpuSnapshot& snapshot, const OpenOptions& options)
    : GpuBackend(describe_device(snapshot, options), options),
      parts_(std::make_unique<Parts>(snapshot.total_memory, threads_in_force(snapshot, options),
                                     engine_in_force(options.cpu_engine),
                                     [this](const Error& error) { set_sticky(error); })) {}

CpuBackend::~CpuBackend() {
  shut_down();
  if (forked()) detail::abandon(parts_.release());
}

DeviceFacts CpuBackend::do_facts() const {
  DeviceFacts facts;
  facts.backend = info().backend;
  facts.target = info().target;
  facts.shared_memory_per_block = info().limits.shared_memory_per_block;
  facts.threads_per_block = info().limits.threads_per_block;
  return facts;
}

void CpuBackend::wait_for_all() {
  for (const auto& stream : parts_->streams.all()) {
    if (!stream->idle()) stream->wait(stream->submitted(), {});
  }
}

}  // namespace kdart::cpu
