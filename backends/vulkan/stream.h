// Streams and events.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backends/vulkan/logical_device.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/recorder.h"
#include "kdart/backend.h"

namespace kdart::vulkan {

class Capture;
class VulkanGraph;

// A counter on the device. Outlives its stream when events refer to it.
class Timeline {
 public:
  explicit Timeline(const LogicalDevice& device);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  [[nodiscard]] VkSemaphore get() const noexcept { return semaphore_; }
  // Throws Error, device_lost among others. Any thread.
  [[nodiscard]] bool passed(std::uint64_t value) const;
  // False when the time ran out.
  [[nodiscard]] bool wait(std::uint64_t value, Timeout timeout) const;

 private:
  const LogicalDevice* device_;
  VkSemaphore semaphore_ = VK_NULL_HANDLE;
  mutable std::atomic<std::uint64_t> seen_{0};
};

// Places for timestamps. A place is free again when nothing refers to it. Any thread.
class TimestampPool {
 public:
  explicit TimestampPool(const LogicalDevice& device) : device_(&device) {}
  ~TimestampPool();
  TimestampPool(const TimestampPool&) = delete;
  TimestampPool& operator=(const TimestampPool&) = delete;

  struct Place {
    VkQueryPool pool;
    std::uint32_t query;
  };
  [[nodiscard]] std::shared_ptr<const Place> take();
  // Ticks, once the work that writes them has passed.
  [[nodiscard]] std::uint64_t read(const Place& place) const;

 private:
  const LogicalDevice* device_;
  std::mutex mutex_;
  std::vector<VkQueryPool> pools_;
  std::vector<Place> spare_;
};

// A point in a stream: reached when its timeline has the value.
struct StreamPoint {
  std::shared_ptr<const Timeline> timeline;
  std::uint64_t value = 0;
};

// What the streams of one device share. Outlives them.
struct StreamDevice {
  const LogicalDevice& device;
  DeviceMemory& memory;
  StagingPool& uploads;
  StagingPool& readbacks;
  TimestampPool& timestamps;
  const BytePipelines& pipelines;
};

// Collects operations in an open command buffer and submits it at 64 of them, when they are much work, or when told to.
// Its lock is its own: another thread takes it only to free memory that the stream may use.
class VulkanStream {
 public:
  explicit VulkanStream(const StreamDevice& shared);
  ~VulkanStream();
  VulkanStream(const VulkanStream&) = delete;
  VulkanStream& operator=(const VulkanStream&) = delete;

  // Runs `record(Recorder&)` as one operation of the stream. Throws Error.
  template <class Record>
  void operate(const Record& record) {
    const std::lock_guard lock(mutex_);
    record(open());
    submit_if_full();
  }
  // `bytes` of host memory for the device to read, until the submission that is open now has passed. Inside `operate`.
  struct Staged {
    std::byte* data;
    std::uint64_t address;
    BufferPlace place;
    std::uint64_t bytes;
  };
  [[nodiscard]] Staged stage(std::uint64_t bytes);        // may give less than asked for, at least 1
  [[nodiscard]] Staged stage_whole(std::uint64_t bytes);  // all of it, less than a chunk

  // Copies from host memory, which has been read when it returns.
  void upload(const CopySide& dst, const std::byte* src, std::uint64_t bytes);
  // Waits until the stream has come there and the data is at `dst`.
  void download(std::byte* dst, const CopySide& src, std::uint64_t bytes);

  void launch_graph(std::shared_ptr<const VulkanGraph> graph);
  void wait_for(const StreamPoint& point);
  // The point after everything so far, with the time there when `time` is not null. Submits.
  [[nodiscard]] StreamPoint record(std::shared_ptr<const TimestampPool::Place> time);

  void flush();
  [[nodiscard]] bool synchronize(Timeout timeout);
  // Gives the memory back when the stream has passed everything so far.
  void release_later(DevicePtr memory);
  // Recycles what has passed.
  void poll();

  // The capture this stream takes part in, over or not; see graph.h. Belongs to the stream's caller.
  std::shared_ptr<Capture> capture;

 private:
  // What a submission holds until it has passed.
  struct Submission {
    VkCommandPool pool = VK_NULL_HANDLE;
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    std::uint64_t value = 0;
    std::vector<MemoryBuffer> staging;
    std::vector<DevicePtr> releases;
    std::vector<std::shared_ptr<const TimestampPool::Place>> times;
    std::vector<StreamPoint> waited;  // keeps their timelines
    std::shared_ptr<const VulkanGraph> graph;
  };

  [[nodiscard]] Recorder& open();
  void submit_if_full();
  void submit_open();
  void submit(Submission&& submission, VkCommandBuffer commands);
  [[nodiscard]] Submission new_submission();
  void recycle(Submission submission) noexcept;
  void recycle_passed();
  void limit_in_flight();
  void flush_locked();

  StreamDevice shared_;
  Queue& queue_;  // always the same: a stream's submissions to it stay in order
  std::shared_ptr<Timeline> timeline_;
  std::mutex mutex_;
  Recorder recorder_;
  Submission current_;  // open while recorder_ records; or ended and not yet submitted
  bool ended_ = false;
  std::uint64_t chunk_used_ = 0;    // of current_'s last chunk
  std::vector<StreamPoint> waits_;  // for the next submission
  std::uint64_t submitted_ = 0;
  std::deque<Submission> in_flight_;
  std::vector<Submission> spare_;     // pool and buffer alone
  std::vector<MemoryBuffer> parked_;  // of downloads that failed half-way
};

class VulkanEvent {
 public:
  struct Record {
    StreamPoint point;
    std::shared_ptr<const TimestampPool::Place> time;
  };
  void set(Record record);
  [[nodiscard]] Record latest() const;

  // The capture that recorded this event last, if that came after its last real record.
  std::shared_ptr<Capture> capture;

 private:
  mutable std::mutex mutex_;
  Record record_;
};

}  // namespace kdart::vulkan
