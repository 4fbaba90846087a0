#include "backends/vulkan/stream.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "backends/vulkan/errors.h"
#include "backends/vulkan/graph.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint32_t operations_per_submission = 64;
constexpr std::size_t max_in_flight = 32;  // submissions of one stream; more would only hold memory
constexpr std::uint32_t queries_per_pool = 256;
constexpr std::uint64_t staging_alignment = 16;

std::uint64_t nanoseconds(Timeout timeout) {
  return timeout ? static_cast<std::uint64_t>(timeout->count()) : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

// --- timelines and timestamps -----------------------------------------------------------------------------------------

Timeline::Timeline(const LogicalDevice& device) : device_(&device) {
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  check_vk(device.fn().vkCreateSemaphore(device.get(), &info, nullptr, &semaphore_), "creating a timeline semaphore");
}

Timeline::~Timeline() {
  device_->fn().vkDestroySemaphore(device_->get(), semaphore_, nullptr);
}

bool Timeline::passed(std::uint64_t value) const {
  if (seen_.load(std::memory_order_acquire) >= value) return true;
  std::uint64_t now = 0;
  check_vk(device_->fn().vkGetSemaphoreCounterValue(device_->get(), semaphore_, &now), "asking how far a stream is");
  seen_.store(now, std::memory_order_release);
  return now >= value;
}

bool Timeline::wait(std::uint64_t value, Timeout timeout) const {
  if (passed(value)) return true;
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &semaphore_;
  info.pValues = &value;
  const VkResult result = device_->fn().vkWaitSemaphores(device_->get(), &info, nanoseconds(timeout));
  if (result == VK_TIMEOUT) return false;
  check_vk(result, "waiting for the device");
  return true;
}

TimestampPool::~TimestampPool() {
  for (const VkQueryPool pool : pools_) device_->fn().vkDestroyQueryPool(device_->get(), pool, nullptr);
}

std::shared_ptr<const TimestampPool::Place> TimestampPool::take() {
  const std::lock_guard lock(mutex_);
  if (spare_.empty()) {
    VkQueryPoolCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
    info.queryType = VK_QUERY_TYPE_TIMESTAMP;
    info.queryCount = queries_per_pool;
    pools_.reserve(pools_.size() + 1);
    spare_.reserve(pools_.capacity() * queries_per_pool);  // giving a place back never allocates
    VkQueryPool pool = VK_NULL_HANDLE;
    check_vk(device_->fn().vkCreateQueryPool(device_->get(), &info, nullptr, &pool), "creating timestamp queries");
    pools_.push_back(pool);
    for (std::uint32_t i = queries_per_pool; i > 0; --i) spare_.push_back({pool, i - 1});
  }
  const auto give_back = [this](const Place* place) {
    {
      const std::lock_guard relock(mutex_);
      spare_.push_back(*place);
    }
    delete place;
  };
  std::shared_ptr<const Place> place(new Place(spare_.back()), give_back);
  spare_.pop_back();
  return place;
}

std::uint64_t TimestampPool::read(const Place& place) const {
  std::uint64_t ticks = 0;
  check_vk(device_->fn().vkGetQueryPoolResults(device_->get(), place.pool, place.query, 1, sizeof ticks, &ticks,
                                               sizeof ticks, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
           "reading a timestamp");
  return ticks;
}

// --- streams ----------------------------------------------------------------------------------------------------------

VulkanStream::VulkanStream(const StreamDevice& shared)
    : shared_(shared),
      queue_(shared.device.next_queue()),
      timeline_(std::make_shared<Timeline>(shared.device)),
      recorder_(shared.device.fn(), shared.device.pipeline_layout(), shared.pipelines) {}

// The backend has waited, unless the device is lost: then nothing runs any more either.
VulkanStream::~VulkanStream() {
  if (current_.pool != VK_NULL_HANDLE) in_flight_.push_back(std::move(current_));
  for (Submission& submission : in_flight_) recycle(std::move(submission));
  for (const Submission& submission : spare_) {
    shared_.device.fn().vkDestroyCommandPool(shared_.device.get(), submission.pool, nullptr);
  }
}

VulkanStream::Submission VulkanStream::new_submission() {
  const DeviceFunctions& fn = shared_.device.fn();
  const VkDevice device = shared_.device.get();
  if (!spare_.empty()) {
    check_vk(fn.vkResetCommandPool(device, spare_.back().pool, 0), "resetting a command pool");
    Submission submission = std::move(spare_.back());
    spare_.pop_back();
    return submission;
  }
  spare_.reserve(spare_.size() + in_flight_.size() + 2);  // recycling never allocates
  const Commands commands = shared_.device.make_commands(VK_COMMAND_POOL_CREATE_TRANSIENT_BIT);
  Submission submission;
  submission.pool = commands.pool;
  submission.buffer = commands.buffer;
  return submission;
}

void VulkanStream::recycle(Submission submission) noexcept {
  for (MemoryBuffer& chunk : submission.staging) shared_.uploads.give(std::move(chunk));
  for (const DevicePtr memory : submission.releases) shared_.memory.release(memory);
  submission.staging.clear();
  submission.releases.clear();
  submission.times.clear();
  submission.waited.clear();
  submission.graph.reset();
  submission.value = 0;
  if (submission.pool == VK_NULL_HANDLE) return;
  try {
    spare_.push_back(std::move(submission));
  } catch (...) {
    shared_.device.fn().vkDestroyCommandPool(shared_.device.get(), submission.pool, nullptr);
  }
}

void VulkanStream::recycle_passed() {
  while (!in_flight_.empty() && timeline_->passed(in_flight_.front().value)) {
    Submission passed = std::move(in_flight_.front());
    in_flight_.pop_front();
    recycle(std::move(passed));
  }
}

void VulkanStream::limit_in_flight() {
  recycle_passed();
  if (in_flight_.size() < max_in_flight) return;
  static_cast<void>(timeline_->wait(in_flight_.front().value, std::nullopt));
  recycle_passed();
}

Recorder& VulkanStream::open() {
  if (ended_) submit_open();  // the last try failed
  if (recorder_.recording()) return recorder_;
  limit_in_flight();
  Submission submission = new_submission();
  try {
    recorder_.begin(submission.buffer, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
  } catch (...) {
    recycle(std::move(submission));
    throw;
  }
  current_ = std::move(submission);
  return recorder_;
}

void VulkanStream::submit_if_full() {
  const std::uint64_t limit = shared_.device.plan().submission_groups;
  if (recorder_.operations() >= operations_per_submission || (limit != 0 && recorder_.groups() >= limit)) submit_open();
}

// A submission that fails stays as it is, and is tried again by the next call.
void VulkanStream::submit_open() {
  if (!ended_) recorder_.end();
  ended_ = true;
  const VkCommandBuffer commands = current_.buffer;
  submit(std::move(current_), commands);
  current_ = {};
  ended_ = false;
}

// Moves from `submission` only when it was submitted.
void VulkanStream::submit(Submission&& submission, VkCommandBuffer commands) {
  std::vector<VkSemaphore> semaphores;
  std::vector<std::uint64_t> values;
  std::vector<VkPipelineStageFlags> stages;
  for (const StreamPoint& point : waits_) {
    semaphores.push_back(point.timeline->get());
    values.push_back(point.value);
    stages.push_back(VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  }
  const std::uint64_t value = submitted_ + 1;
  const VkSemaphore own = timeline_->get();
  VkTimelineSemaphoreSubmitInfo timeline{};
  timeline.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  timeline.waitSemaphoreValueCount = static_cast<std::uint32_t>(values.size());
  timeline.pWaitSemaphoreValues = values.data();
  timeline.signalSemaphoreValueCount = 1;
  timeline.pSignalSemaphoreValues = &value;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &timeline;
  info.waitSemaphoreCount = static_cast<std::uint32_t>(semaphores.size());
  info.pWaitSemaphores = semaphores.data();
  info.pWaitDstStageMask = stages.data();
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &own;

  submission.value = value;
  in_flight_.emplace_back();  // room first: a submission must not be lost
  try {
    queue_.submit(shared_.device.fn(), info);
  } catch (...) {
    in_flight_.pop_back();
    throw;
  }
  // The timelines that were waited for must live until the wait is over.
  submission.waited = std::exchange(waits_, {});
  in_flight_.back() = std::move(submission);
  submitted_ = value;
}

VulkanStream::Staged VulkanStream::stage(std::uint64_t bytes) {
  static_cast<void>(open());
  const auto align = [](std::uint64_t x) {
    return (x + staging_alignment - 1) / staging_alignment * staging_alignment;
  };
  if (current_.staging.empty() || align(chunk_used_) >= StagingPool::chunk_bytes) {
    current_.staging.push_back(shared_.uploads.take());
    chunk_used_ = 0;
  }
  const MemoryBuffer& chunk = current_.staging.back();
  const std::uint64_t offset = align(chunk_used_);
  const std::uint64_t given = std::min(bytes, StagingPool::chunk_bytes - offset);
  chunk_used_ = offset + given;
  return {chunk.data() + offset, chunk.address() + offset, {chunk.buffer(), offset}, given};
}

VulkanStream::Staged VulkanStream::stage_whole(std::uint64_t bytes) {
  if (!current_.staging.empty() &&
      StagingPool::chunk_bytes - std::min(chunk_used_, StagingPool::chunk_bytes) < bytes + staging_alignment) {
    chunk_used_ = StagingPool::chunk_bytes;  // the rest stays unused
  }
  return stage(bytes);
}

void VulkanStream::upload(const CopySide& dst, const std::byte* src, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  for (std::uint64_t done = 0; done < bytes;) {
    Recorder& recorder = open();
    const Staged staged = stage(bytes - done);
    std::memcpy(staged.data, src + done, staged.bytes);
    recorder.copy(dst.offset(done), {DevicePtr(staged.address), staged.place}, staged.bytes);
    done += staged.bytes;
    // A full chunk goes off, so that the device copies while the host fills the next, and chunks in flight stay few.
    if (done < bytes) {
      submit_open();
    } else {
      submit_if_full();
    }
  }
}

void VulkanStream::download(std::byte* dst, const CopySide& src, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  MemoryBuffer chunk = shared_.readbacks.take();
  try {
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t piece = std::min(bytes - done, StagingPool::chunk_bytes);
      open().copy({DevicePtr(chunk.address()), BufferPlace{chunk.buffer(), 0}}, src.offset(done), piece);
      submit_open();
      static_cast<void>(timeline_->wait(submitted_, std::nullopt));
      chunk.invalidate();
      std::memcpy(dst + done, chunk.data(), piece);
      done += piece;
    }
  } catch (...) {
    parked_.push_back(std::move(chunk));  // a copy that was not submitted yet still writes to it
    throw;
  }
  shared_.readbacks.give(std::move(chunk));
  recycle_passed();
}

void VulkanStream::launch_graph(std::shared_ptr<const VulkanGraph> graph) {
  const std::lock_guard lock(mutex_);
  if (ended_ || recorder_.recording()) submit_open();
  limit_in_flight();
  Submission submission;
  const VkCommandBuffer commands = graph->commands();
  submission.graph = std::move(graph);
  submit(std::move(submission), commands);
}

void VulkanStream::wait_for(const StreamPoint& point) {
  if (point.timeline == timeline_ || point.timeline->passed(point.value)) return;
  const std::lock_guard lock(mutex_);
  if (ended_ || (recorder_.recording() && recorder_.operations() > 0)) submit_open();
  waits_.push_back(point);
}

StreamPoint VulkanStream::record(std::shared_ptr<const TimestampPool::Place> time) {
  const std::lock_guard lock(mutex_);
  if (time != nullptr) {
    Recorder& recorder = open();
    recorder.timestamp(time->pool, time->query);
    current_.times.push_back(std::move(time));
  }
  flush_locked();
  return {timeline_, submitted_};
}

void VulkanStream::flush() {
  const std::lock_guard lock(mutex_);
  flush_locked();
}

void VulkanStream::flush_locked() {
  if (!waits_.empty()) static_cast<void>(open());  // a wait alone is work too
  if (ended_ || recorder_.recording()) submit_open();
}

bool VulkanStream::synchronize(Timeout timeout) {
  std::uint64_t last = 0;
  {
    const std::lock_guard lock(mutex_);
    flush_locked();
    last = submitted_;
  }
  if (!timeline_->wait(last, timeout)) return false;
  poll();
  return true;
}

void VulkanStream::release_later(DevicePtr memory) {
  const std::lock_guard lock(mutex_);
  recycle_passed();
  if (ended_ || recorder_.recording()) {
    current_.releases.push_back(memory);
  } else if (!in_flight_.empty()) {
    in_flight_.back().releases.push_back(memory);
  } else {
    shared_.memory.release(memory);
  }
}

void VulkanStream::poll() {
  const std::lock_guard lock(mutex_);
  recycle_passed();
}

// --- events -----------------------------------------------------------------------------------------------------------

void VulkanEvent::set(Record record) {
  const std::lock_guard lock(mutex_);
  record_ = std::move(record);
}

VulkanEvent::Record VulkanEvent::latest() const {
  const std::lock_guard lock(mutex_);
  return record_;
}

}  // namespace kdart::vulkan
