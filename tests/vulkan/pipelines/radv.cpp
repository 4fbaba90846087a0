#include "tests/vulkan/pipelines/radv.h"

#include <dlfcn.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "core/runtime/format.h"

namespace kdart::test {
namespace {

template <class... Args>
[[noreturn]] void give_up(fmt::format_string<Args...> text, Args&&... args) {
  throw std::runtime_error(detail::format_packed(text, fmt::make_format_args(args...)));
}

void check(VkResult result, const char* call) {
  if (result != VK_SUCCESS) give_up("{} gives {}", call, static_cast<int>(result));
}

std::string machine() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "";
}

// Runs at the end of a scope.
template <class Body>
struct Finally {
  explicit Finally(Body run) : body(std::move(run)) {}
  ~Finally() { body(); }
  Finally(const Finally&) = delete;
  Finally& operator=(const Finally&) = delete;
  Body body;
};

std::uint64_t value_of(const VkPipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
      return statistic.value.u64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
      return static_cast<std::uint64_t>(statistic.value.i64);
    default:
      give_up("the statistic '{}' is no whole number", statistic.name);
  }
}

}  // namespace

std::filesystem::path find_radv() {
  std::optional<std::filesystem::path> other;
  for (const char* folder : {"/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/usr/share/vulkan/icd.d"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename().string();
      if (name == "radeon_icd." + machine() + ".json") return entry.path();
      if (name == "radeon_icd.json") other = entry.path();
    }
  }
  if (!other) give_up("Mesa's Vulkan driver for AMD GPUs (radeon_icd*.json) is not installed");
  return *other;
}

Radv::Radv(const std::filesystem::path& driver, const std::string& family) {
  ::setenv("VK_DRIVER_FILES", driver.c_str(), 1);
  ::setenv("VK_ICD_FILENAMES", driver.c_str(), 1);  // the name that older loaders know
  ::setenv("RADV_FORCE_FAMILY", family.c_str(), 1);
  ::setenv("MESA_SHADER_CACHE_DISABLE", "true", 1);
  try {
    create_instance();
    choose_device(family);
    create_device();
    create_layout();
  } catch (...) {
    release();
    throw;
  }
}

Radv::~Radv() {
  release();
}

void Radv::release() noexcept {
  if (layout_ != VK_NULL_HANDLE) {
    device_function<PFN_vkDestroyPipelineLayout>("vkDestroyPipelineLayout")(device_, layout_, nullptr);
  }
  if (device_ != VK_NULL_HANDLE) device_function<PFN_vkDestroyDevice>("vkDestroyDevice")(device_, nullptr);
  if (instance_ != VK_NULL_HANDLE) instance_function<PFN_vkDestroyInstance>("vkDestroyInstance")(instance_, nullptr);
}

template <class Function>
Function Radv::instance_function(const char* name) const {
  const auto function = reinterpret_cast<Function>(get_instance_function_(instance_, name));
  if (function == nullptr) give_up("the Vulkan loader has no {}", name);
  return function;
}

template <class Function>
Function Radv::device_function(const char* name) const {
  const auto function = reinterpret_cast<Function>(get_device_function_(device_, name));
  if (function == nullptr) give_up("the device has no {}", name);
  return function;
}

void Radv::create_instance() {
  // Never closed: drivers do not survive it.
  void* library = ::dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up("{}", ::dlerror());
  get_instance_function_ = reinterpret_cast<PFN_vkGetInstanceProcAddr>(::dlsym(library, "vkGetInstanceProcAddr"));
  if (get_instance_function_ == nullptr) give_up("libvulkan.so.1 has no vkGetInstanceProcAddr");

  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.apiVersion = VK_API_VERSION_1_2;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  check(instance_function<PFN_vkCreateInstance>("vkCreateInstance")(&info, nullptr, &instance_), "vkCreateInstance");
  get_device_function_ = instance_function<PFN_vkGetDeviceProcAddr>("vkGetDeviceProcAddr");
}

void Radv::choose_device(const std::string& family) {
  const auto enumerate = instance_function<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices");
  std::uint32_t count = 1;
  if (const VkResult result = enumerate(instance_, &count, &physical_); result < 0 || count != 1) {
    give_up("the driver offers no GPU of the family '{}' ({})", family, static_cast<int>(result));
  }
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  VkPhysicalDeviceProperties2 properties{};
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = &driver;
  instance_function<PFN_vkGetPhysicalDeviceProperties2>("vkGetPhysicalDeviceProperties2")(physical_, &properties);
  driver_version_ = driver.driverInfo;
  if (driver.driverID != VK_DRIVER_ID_MESA_RADV) give_up("the driver is '{}', not radv", driver.driverName);
}

void Radv::create_device() {
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR executables{};
  executables.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR;
  executables.pipelineExecutableInfo = VK_TRUE;
  VkPhysicalDeviceVulkan12Features features12{};
  features12.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES;
  features12.pNext = &executables;
  features12.bufferDeviceAddress = VK_TRUE;
  VkPhysicalDeviceVulkan11Features features11{};
  features11.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES;
  features11.pNext = &features12;
  features11.storageBuffer16BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = &features11;
  features.features.shaderInt64 = VK_TRUE;

  const float priority = 1;
  VkDeviceQueueCreateInfo queue{};
  queue.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  const char* extension = VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME;
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &features;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = &extension;
  check(instance_function<PFN_vkCreateDevice>("vkCreateDevice")(physical_, &info, nullptr, &device_), "vkCreateDevice");
}

void Radv::create_layout() {
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, 128};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  check(device_function<PFN_vkCreatePipelineLayout>("vkCreatePipelineLayout")(device_, &info, nullptr, &layout_),
        "vkCreatePipelineLayout");
}

VkPipeline Radv::make_pipeline(VkShaderModule shader, const std::string& entry,
                               std::span<const std::uint32_t> constants) const {
  std::vector<VkSpecializationMapEntry> entries;
  for (std::uint32_t id = 0; id < constants.size(); ++id) entries.push_back({id, 4 * id, 4});
  const VkSpecializationInfo specialization{static_cast<std::uint32_t>(entries.size()), entries.data(),
                                            constants.size_bytes(), constants.data()};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.flags = VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = shader;
  info.stage.pName = entry.c_str();
  info.stage.pSpecializationInfo = &specialization;
  info.layout = layout_;
  VkPipeline pipeline = VK_NULL_HANDLE;
  check(device_function<PFN_vkCreateComputePipelines>("vkCreateComputePipelines")(device_, VK_NULL_HANDLE, 1, &info,
                                                                                  nullptr, &pipeline),
        "vkCreateComputePipelines");
  return pipeline;
}

PipelineStatistics Radv::compile(std::span<const std::uint32_t> code, const std::string& entry,
                                 std::span<const std::uint32_t> constants) const {
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = code.size_bytes();
  info.pCode = code.data();
  VkShaderModule shader = VK_NULL_HANDLE;
  check(device_function<PFN_vkCreateShaderModule>("vkCreateShaderModule")(device_, &info, nullptr, &shader),
        "vkCreateShaderModule");
  const Finally destroy_shader(
      [&] { device_function<PFN_vkDestroyShaderModule>("vkDestroyShaderModule")(device_, shader, nullptr); });
  const VkPipeline pipeline = make_pipeline(shader, entry, constants);
  const Finally destroy_pipeline(
      [&] { device_function<PFN_vkDestroyPipeline>("vkDestroyPipeline")(device_, pipeline, nullptr); });
  return statistics_of(pipeline);
}

PipelineStatistics Radv::statistics_of(VkPipeline pipeline) const {
  VkPipelineExecutableInfoKHR info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR;
  info.pipeline = pipeline;
  const auto get = device_function<PFN_vkGetPipelineExecutableStatisticsKHR>("vkGetPipelineExecutableStatisticsKHR");
  std::uint32_t count = 0;
  check(get(device_, &info, &count, nullptr), "vkGetPipelineExecutableStatisticsKHR");
  std::vector<VkPipelineExecutableStatisticKHR> reported(count);
  for (auto& statistic : reported) statistic.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR;
  check(get(device_, &info, &count, reported.data()), "vkGetPipelineExecutableStatisticsKHR");

  const auto find = [&](const std::string& name) {
    for (const auto& statistic : reported) {
      if (name == statistic.name) return value_of(statistic);
    }
    give_up("the driver does not report '{}'", name);
  };
  return {.vgprs = find("VGPRs"),
          .sgprs = find("SGPRs"),
          .spilled_vgprs = find("Spilled VGPRs"),
          .spilled_sgprs = find("Spilled SGPRs"),
          .scratch_bytes = find("Scratch size"),
          .lds_bytes = find("LDS size"),
          .waves = find("Subgroups per SIMD"),
          .code_bytes = find("Code size")};
}

}  // namespace kdart::test
