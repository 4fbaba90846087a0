// The members of DriverBackend, for a vendor's device.cpp to instantiate.
#pragma once

#include <utility>
#include <vector>

#include "backends/common/device.h"
#include "backends/common/graph_calls.h"
#include "backends/common/kernel_calls.h"
#include "backends/common/memory_calls.h"
#include "backends/common/stream_calls.h"
#include "core/runtime/abandon.h"
#include "core/runtime/fail.h"

namespace kdart::common {

template <class Snapshot>
DeviceInfo require_usable(const Snapshot& snapshot) {
  DeviceInfo info = describe_device(snapshot);
  if (!info.unusable.empty())
    detail::fail(ErrorCode::unsupported, "{} ({}) cannot be used: {}", info.id, info.name, info.unusable);
  return info;
}

template <class Api>
DriverBackend<Api>::DriverBackend(const typename Api::Snapshot& snapshot, const OpenOptions& options)
    : GpuBackend(require_usable(snapshot), options) {}

template <class Api>
void DriverBackend<Api>::start(std::unique_ptr<Context> context, const typename Api::Snapshot& snapshot) {
  context_ = std::move(context);
  const Current current(*context_);
  parts_ = std::make_unique<Parts>(*context_, snapshot);
}

template <class Api>
DriverBackend<Api>::~DriverBackend() {
  shut_down();
  if (forked()) {
    detail::abandon(parts_.release());
    detail::abandon(context_.release());
    return;
  }
  if (context_ == nullptr) return;
  const CurrentToRelease current(*context_);
  parts_.reset();
}

template <class Api>
DeviceFacts DriverBackend<Api>::do_facts() const {
  return selection_facts(parts_->snapshot);
}

template <class Api>
void* DriverBackend<Api>::do_service(std::string_view id) {
  return id == GemmService::service_id ? gemm() : nullptr;
}

template <class Api>
GemmService* DriverBackend<Api>::gemm() {
  const std::lock_guard lock(parts_->gemm_mutex);
  if (!parts_->gemm_tried) {
    const Current current(*context_);
    parts_->gemm = open_gemm();
    parts_->gemm_tried = true;
  }
  return parts_->gemm.get();
}

template <class Api>
void DriverBackend<Api>::fail(Result result, std::string_view doing) const {
  const ErrorCode code = Api::code_of(result);
  if (code != ErrorCode::device_fault) Api::fail(result, doing);
  const auto streams = parts_->streams.all();
  std::vector<const Launched*> lists;
  lists.reserve(streams.size());
  for (const auto& stream : streams) lists.push_back(&stream->launched);
  const std::string culprit = suspects(lists);
  const std::string name = Api::result_name(result);
  throw Error(
      code,
      detail::format("{}: {} ran into a fault on {}: {} ({}). Its context is lost: what is on the device is gone, "
                     "and a new process is needed to use it again",
                     doing, culprit.empty() ? "work of this process" : culprit, info().id, name, result),
      result, name);
}

}  // namespace kdart::common
