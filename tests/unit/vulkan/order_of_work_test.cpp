// Every command buffer that the backend submits, looked at on its way to the driver: between any two operations stands a
// barrier, whichever way they came there. What a single recorder does is in recorder_test.cpp.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <mutex>

#include "kdart/vulkan.h"
#include "tests/support/random_values.h"
#include "tests/unit/vulkan/own_device.h"

namespace kdart::test {
namespace {

enum class Item : std::uint8_t { full_barrier, host_barrier, other_barrier, dispatch, copy, reset_query, timestamp };

// What the backend put in its command buffers, and those that it submitted with a fault. The functions below stand between
// the backend and the driver.
struct Watch {
  std::mutex mutex;
  std::map<VkCommandBuffer, std::vector<Item>> buffers;
  std::size_t submitted = 0, operations = 0, faults = 0, resubmitted = 0;
  std::map<VkCommandBuffer, std::size_t> submissions;
  // Per submission.
  struct Point {
    VkSemaphore semaphore;
    std::uint64_t value;
  };
  std::vector<std::vector<Point>> waits;
  std::vector<Point> signals;
  PFN_vkGetInstanceProcAddr get_instance = nullptr;
  PFN_vkGetDeviceProcAddr get_device = nullptr;
  vulkan::DeviceFunctions real;
};
Watch* watch = nullptr;

void add(VkCommandBuffer buffer, Item item) {
  const std::lock_guard lock(watch->mutex);
  watch->buffers[buffer].push_back(item);
}

VKAPI_ATTR VkResult VKAPI_CALL begin_buffer(VkCommandBuffer buffer, const VkCommandBufferBeginInfo* info) {
  {
    const std::lock_guard lock(watch->mutex);
    watch->buffers[buffer].clear();
    watch->submissions[buffer] = 0;
  }
  return watch->real.vkBeginCommandBuffer(buffer, info);
}

VKAPI_ATTR void VKAPI_CALL barrier(VkCommandBuffer buffer, VkPipelineStageFlags from, VkPipelineStageFlags to,
                                   VkDependencyFlags flags, std::uint32_t count, const VkMemoryBarrier* barriers,
                                   std::uint32_t buffers, const VkBufferMemoryBarrier* of_buffers, std::uint32_t images,
                                   const VkImageMemoryBarrier* of_images) {
  constexpr VkAccessFlags all = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  Item item = Item::other_barrier;
  if (from == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT && count == 1 &&
      barriers->srcAccessMask == VK_ACCESS_MEMORY_WRITE_BIT) {
    if (to == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT && barriers->dstAccessMask == all) item = Item::full_barrier;
    if (to == VK_PIPELINE_STAGE_HOST_BIT && barriers->dstAccessMask == VK_ACCESS_HOST_READ_BIT)
      item = Item::host_barrier;
  }
  add(buffer, item);
  watch->real.vkCmdPipelineBarrier(buffer, from, to, flags, count, barriers, buffers, of_buffers, images, of_images);
}

VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer buffer, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
  add(buffer, Item::dispatch);
  watch->real.vkCmdDispatch(buffer, x, y, z);
}

VKAPI_ATTR void VKAPI_CALL copy(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, std::uint32_t count,
                                const VkBufferCopy* regions) {
  // One operation of many rows comes in commands of 1024.
  const std::vector<Item>& so_far = watch->buffers[buffer];
  const bool continues = !so_far.empty() && so_far.back() == Item::copy;
  if (!continues) add(buffer, Item::copy);
  CHECK((!continues || count <= 1024));
  watch->real.vkCmdCopyBuffer(buffer, from, to, count, regions);
}

VKAPI_ATTR void VKAPI_CALL reset_query(VkCommandBuffer buffer, VkQueryPool pool, std::uint32_t first,
                                       std::uint32_t count) {
  add(buffer, Item::reset_query);
  watch->real.vkCmdResetQueryPool(buffer, pool, first, count);
}

VKAPI_ATTR void VKAPI_CALL timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits stage, VkQueryPool pool,
                                     std::uint32_t query) {
  add(buffer, Item::timestamp);
  watch->real.vkCmdWriteTimestamp(buffer, stage, pool, query);
}

// Faults of one submitted buffer.
std::size_t faults_of(const std::vector<Item>& items) {
  std::size_t faults = items.empty() || items.back() != Item::host_barrier ? 1 : 0;
  Item before = Item::host_barrier;  // another submission lies before the first
  for (const Item item : items) {
    const bool work = item == Item::dispatch || item == Item::copy || item == Item::reset_query;
    if (work && before != Item::full_barrier) ++faults;
    if (item == Item::timestamp && before != Item::reset_query) ++faults;
    if (item == Item::other_barrier) ++faults;
    before = item;
  }
  return faults;
}

// What a submission waits for and what it signals. Each wait holds up all of it.
void note_order(const VkSubmitInfo& info) {
  const auto* timeline = static_cast<const VkTimelineSemaphoreSubmitInfo*>(info.pNext);
  REQUIRE(timeline->sType == VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO);
  REQUIRE(timeline->waitSemaphoreValueCount == info.waitSemaphoreCount);
  REQUIRE(info.signalSemaphoreCount == 1);
  std::vector<Watch::Point> waits;
  for (std::uint32_t i = 0; i < info.waitSemaphoreCount; ++i) {
    CHECK(info.pWaitDstStageMask[i] == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    waits.push_back({info.pWaitSemaphores[i], timeline->pWaitSemaphoreValues[i]});
  }
  watch->waits.push_back(std::move(waits));
  watch->signals.push_back({info.pSignalSemaphores[0], timeline->pSignalSemaphoreValues[0]});
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, std::uint32_t count, const VkSubmitInfo* infos, VkFence fence) {
  {
    const std::lock_guard lock(watch->mutex);
    for (std::uint32_t i = 0; i < count; ++i) {
      note_order(infos[i]);
      for (std::uint32_t k = 0; k < infos[i].commandBufferCount; ++k) {
        const VkCommandBuffer buffer = infos[i].pCommandBuffers[k];
        const std::vector<Item>& items = watch->buffers[buffer];
        ++watch->submitted;
        watch->resubmitted += watch->submissions[buffer]++ > 0 ? 1U : 0U;
        watch->faults += faults_of(items);
        watch->operations += static_cast<std::size_t>(std::count(items.begin(), items.end(), Item::full_barrier));
      }
    }
  }
  return watch->real.vkQueueSubmit(queue, count, infos, fence);
}

PFN_vkVoidFunction VKAPI_CALL get_device_function(VkDevice device, const char* name) {
  const auto is = [name](const char* other) { return std::strcmp(name, other) == 0; };
  if (is("vkBeginCommandBuffer")) return reinterpret_cast<PFN_vkVoidFunction>(begin_buffer);
  if (is("vkCmdPipelineBarrier")) return reinterpret_cast<PFN_vkVoidFunction>(barrier);
  if (is("vkCmdDispatch")) return reinterpret_cast<PFN_vkVoidFunction>(dispatch);
  if (is("vkCmdCopyBuffer")) return reinterpret_cast<PFN_vkVoidFunction>(copy);
  if (is("vkCmdResetQueryPool")) return reinterpret_cast<PFN_vkVoidFunction>(reset_query);
  if (is("vkCmdWriteTimestamp")) return reinterpret_cast<PFN_vkVoidFunction>(timestamp);
  if (is("vkQueueSubmit")) return reinterpret_cast<PFN_vkVoidFunction>(submit);
  return watch->get_device(device, name);
}

PFN_vkVoidFunction VKAPI_CALL get_instance_function(VkInstance instance, const char* name) {
  if (std::strcmp(name, "vkGetDeviceProcAddr") == 0) return reinterpret_cast<PFN_vkVoidFunction>(get_device_function);
  return watch->get_instance(instance, name);
}

// Every kind of operation that a stream takes, in any order.
void submit_anything(const TestDevice& device, const std::vector<Buffer>& buffers, const std::vector<std::byte>& host,
                     Random& random, Stream stream, bool captured) {
  GpuBackend& gpu = *device.gpu;
  const DevicePtr a = buffers[random.bits() % 2].get();
  const DevicePtr b = buffers[2 + random.bits() % 2].get();
  switch (random.bits() % (captured ? 5U : 9U)) {
    case 0:
      return device.affine(a, 64, 3, 1, stream);
    case 1:
      return gpu.copy_d2d_async(a, b, 300, stream);
    case 2:
      return gpu.copy_2d_d2d_async(a, 3, b, 2, 2, 1500, stream);
    case 3:
      return gpu.fill(b.offset(1), 7, 1, 77, stream);
    case 4:
      return KernelLaunch(gpu, device["many_args"])
          .args(kernels::ManyArgsArgs{.out = b,
                                      .a0 = 0,
                                      .b0 = 0,
                                      .c0 = 0,
                                      .p0 = a,
                                      .a1 = 0,
                                      .b1 = 0,
                                      .c1 = 0,
                                      .p1 = a,
                                      .a2 = 0,
                                      .b2 = 0,
                                      .c2 = 0,
                                      .p2 = a,
                                      .a3 = 0,
                                      .b3 = 0,
                                      .c3 = 0,
                                      .p3 = a,
                                      .a4 = 0,
                                      .b4 = 0,
                                      .c4 = 0,
                                      .p4 = a,
                                      .a5 = 0,
                                      .b5 = 0,
                                      .c5 = 0,
                                      .p5 = a,
                                      .a6 = 0,
                                      .b6 = 0,
                                      .c6 = 0,
                                      .p6 = a,
                                      .last = 0})
          .launch(stream);
    case 5:
      return gpu.copy_h2d_async(a.offset(5), host.data(), 100, stream);
    case 6:
      return gpu.copy_h2d(b, host.data(), host.size());
    case 7: {
      std::vector<std::byte> back(100);
      gpu.copy_d2h_async(back.data(), a, back.size(), stream);
      return gpu.synchronize(stream);
    }
    default:
      return gpu.copy_d2d(a, b, 4096);
  }
}

// A device of the test's own, adopted through the functions above.
class Watched {
 public:
  Watched() {
    watching.get_instance = own_.found().instance->library().functions().vkGetInstanceProcAddr;
    watching.get_device = own_.found().instance->functions().vkGetDeviceProcAddr;
    watching.real = own_.fn();
    watch = &watching;
  }
  ~Watched() { watch = nullptr; }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  [[nodiscard]] std::shared_ptr<GpuBackend> adopt() const {
    VulkanDevice description = own_.description();
    description.get_instance_proc_addr =
        reinterpret_cast<decltype(VulkanDevice::get_instance_proc_addr)>(get_instance_function);
    return adopt_vulkan_device(description);
  }

  Watch watching;

 private:
  OwnDevice own_;
};

}  // namespace

TEST_CASE("every operation that is submitted comes after a barrier", "[vulkan][recorder]") {
  Watched watched;
  const Watch& watching = watched.watching;
  {
    const TestDevice device(watched.adopt());
    Random random(3);
    const std::vector<std::byte> host(std::size_t{5} << 20);  // two pieces of staging memory
    std::vector<Buffer> buffers;
    for (int i = 0; i < 4; ++i) buffers.emplace_back(device.gpu, host.size());
    const OwnedStream first(device.gpu);
    const OwnedStream second(device.gpu);
    const OwnedEvent event(device.gpu);
    for (int round = 0; round < 10; ++round) {
      for (const Stream stream : {first.get(), second.get()}) {
        for (int i = 0; i < 30; ++i) submit_anything(device, buffers, host, random, stream, false);
        device.gpu->record(event.get(), stream);
        device.gpu->wait(first.get(), event.get());
      }
      device.gpu->begin_capture(first.get());
      submit_anything(device, buffers, host, random, first.get(), true);
      device.gpu->record(event.get(), first.get());
      device.gpu->wait(second.get(), event.get());
      for (int i = 0; i < 10; ++i) submit_anything(device, buffers, host, random, second.get(), true);
      device.gpu->record(event.get(), second.get());
      device.gpu->wait(first.get(), event.get());
      for (int i = 0; i < 10; ++i) submit_anything(device, buffers, host, random, first.get(), true);
      const OwnedGraph graph(device.gpu, device.gpu->end_capture(first.get()));
      for (const Stream stream : {first.get(), second.get(), first.get()})
        device.gpu->launch_graph(graph.get(), stream);
    }
    device.gpu->synchronize(first.get());
    device.gpu->synchronize(second.get());
    CHECK(device.canary());
  }
  CHECK(watching.faults == 0);
  CHECK(watching.operations > 900);
  CHECK(watching.submitted > 60);
  CHECK(watching.resubmitted == 20);  // the graphs

  // The judge itself.
  CHECK(faults_of({Item::full_barrier, Item::dispatch, Item::full_barrier, Item::copy, Item::host_barrier}) == 0);
  CHECK(faults_of({Item::dispatch, Item::host_barrier}) == 1);
  CHECK(faults_of({Item::full_barrier, Item::dispatch, Item::copy, Item::host_barrier}) == 1);
  CHECK(faults_of({Item::full_barrier, Item::dispatch, Item::dispatch, Item::dispatch, Item::host_barrier}) == 2);
  CHECK(faults_of({Item::full_barrier, Item::dispatch}) == 1);
}

// With one queue, work runs in the order of its submission whatever it waits for; so the waits themselves are looked at.
TEST_CASE("a stream that waits for an event waits for the submission that reaches it", "[vulkan][recorder]") {
  Watched watched;
  const Watch& watching = watched.watching;
  const TestDevice device(watched.adopt());
  const OwnedStream first(device.gpu);
  const OwnedStream second(device.gpu);
  const OwnedEvent event(device.gpu);
  const Buffer data = device.upload(std::vector<std::uint32_t>(16, 1));
  const Buffer other = device.upload(std::vector<std::uint32_t>(16, 1));
  device.gpu->begin_capture(second.get());
  device.affine(other, 3, 1, second.get());
  const OwnedGraph graph(device.gpu, device.gpu->end_capture(second.get()));
  for (const bool by_graph : {false, true}) {
    device.affine(other, 2, 0, second.get());  // before the wait: must not be held up
    device.spin(first.get(), 100);
    device.affine(data, 2, 1, first.get());
    device.gpu->record(event.get(), first.get());
    const Watch::Point reached = watching.signals.back();
    const std::size_t before = watching.signals.size();
    device.gpu->wait(second.get(), event.get());
    REQUIRE(watching.signals.size() == before + 1);  // what came before the wait
    CHECK(watching.waits.back().empty());
    if (by_graph) {
      device.gpu->launch_graph(graph.get(), second.get());
    } else {
      device.affine(other, 5, 0, second.get());
      device.gpu->flush(second.get());
    }
    REQUIRE(watching.signals.size() == before + 2);
    REQUIRE(watching.waits.back().size() == 1);
    CHECK(watching.waits.back()[0].semaphore == reached.semaphore);
    CHECK(watching.waits.back()[0].value == reached.value);
    // Once is enough: the stream's own order does the rest.
    device.affine(other, 1, 1, second.get());
    device.gpu->flush(second.get());
    CHECK(watching.waits.back().empty());
    device.gpu->synchronize(second.get());
    // What has passed is not waited for.
    device.gpu->wait(second.get(), event.get());
    device.affine(other, 1, 1, second.get());
    device.gpu->flush(second.get());
    CHECK(watching.waits.back().empty());
    device.gpu->synchronize(second.get());
  }
}

}  // namespace kdart::test
