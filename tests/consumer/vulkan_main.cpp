// A program that uses Vulkan itself, linked with -lvulkan, and kdart beside it: each must leave the other's calls alone.
#include <kdart/owned.h>
#include <kdart/registry.h>
#include <vulkan/vulkan.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

// The program's own Vulkan: an instance, its first GPU and a device on it, by direct calls.
class OwnVulkan {
 public:
  OwnVulkan() {
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.apiVersion = VK_API_VERSION_1_1;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    require(vkCreateInstance(&info, nullptr, &instance_) == VK_SUCCESS, "vkCreateInstance");
    std::uint32_t count = 1;
    const VkResult result = vkEnumeratePhysicalDevices(instance_, &count, &gpu_);
    require(result >= VK_SUCCESS && count == 1, "vkEnumeratePhysicalDevices");
    create_device();
  }
  ~OwnVulkan() {
    vkDestroyDevice(device_, nullptr);
    vkDestroyInstance(instance_, nullptr);
  }
  OwnVulkan(const OwnVulkan&) = delete;
  OwnVulkan& operator=(const OwnVulkan&) = delete;

  [[nodiscard]] const char* gpu_name() {
    vkGetPhysicalDeviceProperties(gpu_, &properties_);
    return properties_.deviceName;
  }

  // Memory that the host can see, written and read; and the queue, waited for.
  void use() const {
    VkMemoryAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    info.allocationSize = 4096;
    info.memoryTypeIndex = host_visible_type();
    VkDeviceMemory memory = VK_NULL_HANDLE;
    require(vkAllocateMemory(device_, &info, nullptr, &memory) == VK_SUCCESS, "vkAllocateMemory");
    void* mapped = nullptr;
    require(vkMapMemory(device_, memory, 0, VK_WHOLE_SIZE, 0, &mapped) == VK_SUCCESS, "vkMapMemory");
    std::memset(mapped, 42, 4096);
    require(static_cast<const unsigned char*>(mapped)[4095] == 42, "reading mapped memory");
    vkUnmapMemory(device_, memory);
    vkFreeMemory(device_, memory, nullptr);
    VkQueue queue = VK_NULL_HANDLE;
    vkGetDeviceQueue(device_, 0, 0, &queue);
    require(vkQueueWaitIdle(queue) == VK_SUCCESS, "vkQueueWaitIdle");
  }

 private:
  void create_device() {
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{};
    queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    require(vkCreateDevice(gpu_, &info, nullptr, &device_) == VK_SUCCESS, "vkCreateDevice");
  }
  [[nodiscard]] std::uint32_t host_visible_type() const {
    VkPhysicalDeviceMemoryProperties memory{};
    vkGetPhysicalDeviceMemoryProperties(gpu_, &memory);
    constexpr VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      if ((memory.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    }
    require(false, "finding memory that the host can see");
    return 0;
  }

  VkInstance instance_ = VK_NULL_HANDLE;
  VkPhysicalDevice gpu_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties_{};
};

void use_kdart(const std::shared_ptr<kdart::GpuBackend>& gpu) {
  std::vector<std::uint32_t> sent(4096), received(4096);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint32_t>(i * 2654435761U);
  const std::size_t bytes = sent.size() * sizeof sent[0];
  const kdart::OwnedStream stream(gpu);
  const kdart::Buffer first(gpu, bytes), second(gpu, bytes);
  gpu->copy_h2d(first.get(), sent.data(), bytes);
  gpu->copy_d2d_async(second.get(), first.get(), bytes, stream.get());
  gpu->synchronize(stream.get());
  gpu->copy_d2h(received.data(), second.get(), bytes);
  require(sent == received, "a round trip through kdart's device");
}

}  // namespace

int main() {
  const auto own = std::make_unique<OwnVulkan>();
  own->use();
  auto gpu = kdart::open_device("vulkan:0");
  use_kdart(gpu);
  own->use();
  {
    OwnVulkan another;
    another.use();
  }
  use_kdart(gpu);
  gpu.reset();  // kdart's instance and device go, the program's stay
  own->use();
  OwnVulkan last;
  last.use();
  use_kdart(kdart::open_device("vulkan:0"));
  own->use();
  std::printf("its own Vulkan beside kdart's on %s\n", last.gpu_name());
  return 0;
}
