#include "backends/vulkan/loader.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/vulkan/errors.h"
#include "backends/vulkan/manifests.h"
#include "core/runtime/driver_library.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::vulkan {
namespace {

constexpr const char* checks_layer = "VK_LAYER_KHRONOS_validation";

// --- the instance -----------------------------------------------------------------------------------------------------

std::string version_text(std::uint32_t version) {
  return detail::format("{}.{}.{}", VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version),
                        VK_API_VERSION_PATCH(version));
}

// The instance version to ask for: what this backend knows, or the loader's where that is less.
std::uint32_t choose_version(const Library& library) {
  std::uint32_t version = VK_API_VERSION_1_0;  // a loader of Vulkan 1.0 has no such function
  if (const auto ask = library.functions().vkEnumerateInstanceVersion; ask != nullptr)
    check_vk(ask(&version), "asking the Vulkan loader for its version");
  if (version < VK_API_VERSION_1_2) {
    detail::fail(ErrorCode::driver_too_old, "the Vulkan loader {} has version {}, and 1.2 is needed",
                 detail::quote(library.file()), version_text(version));
  }
  return version < VK_API_VERSION_1_3 ? version : VK_API_VERSION_1_3;
}

[[noreturn]] void fail_no_driver(VkResult result, const std::string& loader) {
  std::string settings;
  for (const char* name :
       {"VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_LOADER_DRIVERS_SELECT", "VK_LOADER_DRIVERS_DISABLE"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') settings += detail::format("; {} is {}", name, detail::quote(value));
  }
  throw Error(ErrorCode::driver_missing,
              detail::format("the Vulkan loader {} found no driver that starts{}", detail::quote(loader), settings),
              result, result_name(result));
}

// Checks what the loader answers before any driver is at work. A driver file that is no JSON makes some loaders run out of
// memory, as they say; the file is named then.
void check_start(VkResult result, const std::string& loader, std::string_view doing) {
  if (result == VK_SUCCESS) return;
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER || result == VK_ERROR_INITIALIZATION_FAILED)
    fail_no_driver(result, loader);
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY) {
    const std::vector<std::string> broken = broken_driver_files();
    if (!broken.empty()) {
      throw Error(ErrorCode::driver_missing,
                  detail::format("the Vulkan loader {} cannot list its drivers: {} is no JSON. Remove it, or let "
                                 "VK_DRIVER_FILES name the files of the drivers that are to be used",
                                 detail::quote(loader), fmt::join(broken, ", ")),
                  result, result_name(result));
    }
  }
  fail_vk(result, doing);
}

// Reads a list that the loader gives in two calls; it may grow between them.
template <class Item, class Ask>
std::vector<Item> read_list(const Library& library, Ask ask, std::string_view doing) {
  for (;;) {
    std::uint32_t count = 0;
    check_start(ask(&count, nullptr), library.file(), doing);
    std::vector<Item> items(count);
    const VkResult result = ask(&count, items.data());
    if (result == VK_INCOMPLETE) continue;
    check_start(result, library.file(), doing);
    items.resize(count);
    return items;
  }
}

bool has_layer(const Library& library, std::string_view name) {
  const auto layers = read_list<VkLayerProperties>(
      library,
      [&](std::uint32_t* count, VkLayerProperties* items) {
        return library.functions().vkEnumerateInstanceLayerProperties(count, items);
      },
      "listing Vulkan's layers");
  return std::any_of(layers.begin(), layers.end(),
                     [&](const VkLayerProperties& layer) { return name == layer.layerName; });
}

// An instance extension of the loader and its drivers (null), or of a layer.
bool has_instance_extension(const Library& library, const char* layer, std::string_view name) {
  const auto extensions = read_list<VkExtensionProperties>(
      library,
      [&](std::uint32_t* count, VkExtensionProperties* items) {
        return library.functions().vkEnumerateInstanceExtensionProperties(layer, count, items);
      },
      "listing Vulkan's instance extensions");
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](const VkExtensionProperties& extension) { return name == extension.extensionName; });
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                          VkDebugUtilsMessageTypeFlagsEXT /*types*/,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) noexcept {
  const auto& log = *static_cast<const LogCallback*>(user);
  if (!log) return VK_FALSE;
  try {
    const bool error = severity >= VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    log(error ? LogSeverity::error : LogSeverity::warning,
        detail::format("{}: {}", data->pMessageIdName == nullptr ? "Vulkan" : data->pMessageIdName,
                       data->pMessage == nullptr ? "" : data->pMessage));
  } catch (...) {  // nothing may pass through the driver's frames
  }
  return VK_FALSE;  // the call that drew the message goes on
}

// What vkCreateInstance is given. Refers to itself.
struct InstanceRequest {
  std::vector<const char*> layers, extensions;
  std::array<VkValidationFeatureEnableEXT, 2> checks{};
  VkValidationFeaturesEXT features{};
  VkDebugUtilsMessengerCreateInfoEXT messenger{};
  VkApplicationInfo application{};
  VkInstanceCreateInfo info{};

  InstanceRequest(const Library& library, std::uint32_t version, DriverChecks wanted, LogCallback& log);
  InstanceRequest(const InstanceRequest&) = delete;
  InstanceRequest& operator=(const InstanceRequest&) = delete;

 private:
  void add_checks(const Library& library, DriverChecks wanted, LogCallback& log);
};

InstanceRequest::InstanceRequest(const Library& library, std::uint32_t version, DriverChecks wanted, LogCallback& log) {
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pEngineName = "kdart";
  application.apiVersion = version;
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  // Without it the loader hides devices that are not fully conformant, such as MoltenVK's.
  if (has_instance_extension(library, nullptr, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME)) {
    extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
    info.flags = VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR;
  }
  if (wanted != DriverChecks::none) add_checks(library, wanted, log);
  info.enabledLayerCount = static_cast<std::uint32_t>(layers.size());
  info.ppEnabledLayerNames = layers.data();
  info.enabledExtensionCount = static_cast<std::uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
}

void InstanceRequest::add_checks(const Library& library, DriverChecks wanted, LogCallback& log) {
  if (!has_layer(library, checks_layer)) {
    const char* path = std::getenv("VK_LAYER_PATH");
    detail::fail(ErrorCode::unsupported, "driver_checks need the layer {}, which is not installed{}", checks_layer,
                 path == nullptr ? std::string() : detail::format(" (VK_LAYER_PATH is {})", detail::quote(path)));
  }
  if (!has_instance_extension(library, checks_layer, VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME)) {
    detail::fail(ErrorCode::unsupported, "driver_checks need the extension {}, which the layer {} does not have",
                 VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME, checks_layer);
  }
  layers.push_back(checks_layer);
  extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  extensions.push_back(VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME);

  features.sType = VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT;
  if (wanted == DriverChecks::gpu_assisted) {
    checks = {VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT,
              VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT};
    features.enabledValidationFeatureCount = 2;
  } else {
    checks = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};
    features.enabledValidationFeatureCount = 1;
  }
  features.pEnabledValidationFeatures = checks.data();

  messenger.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT;
  messenger.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                          VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  messenger.pfnUserCallback = on_message;
  messenger.pUserData = &log;
  features.pNext = &messenger;  // hears of the instance's own making and end
  info.pNext = &features;
}

}  // namespace

Library::Library(const OpenOptions& options) {
  const detail::DriverLibrary library({.what = "the Vulkan loader",
                                       .names = {"libvulkan.so.1", "libvulkan.so"},
                                       .entry = "vkGetInstanceProcAddr",
                                       .path = options.driver_path,
                                       .instead = options.driver_names});
  file_ = library.file();
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(library.symbol("vkGetInstanceProcAddr"));
  functions_.vkGetInstanceProcAddr = get;
#define KDART_VK_LOAD(name) functions_.name = reinterpret_cast<PFN_##name>(get(nullptr, #name));
  KDART_VK_GLOBAL_FUNCTIONS(KDART_VK_LOAD)
#undef KDART_VK_LOAD
  if (functions_.vkCreateInstance == nullptr || functions_.vkEnumerateInstanceExtensionProperties == nullptr ||
      functions_.vkEnumerateInstanceLayerProperties == nullptr) {
    detail::fail(ErrorCode::driver_too_old, "the Vulkan loader {} does not give vkCreateInstance and what lists layers",
                 detail::quote(file_));
  }
}

InstanceFunctions load_instance_functions(PFN_vkGetInstanceProcAddr get, VkInstance instance) {
  InstanceFunctions functions;
#define KDART_VK_LOAD(name) functions.name = reinterpret_cast<PFN_##name>(get(instance, #name));
#define KDART_VK_NEED(name) \
  KDART_VK_LOAD(name)       \
  if (functions.name == nullptr) detail::fail(ErrorCode::driver_too_old, "the Vulkan instance has no " #name);
  KDART_VK_INSTANCE_FUNCTIONS(KDART_VK_NEED)
  KDART_VK_OPTIONAL_INSTANCE_FUNCTIONS(KDART_VK_LOAD)
#undef KDART_VK_NEED
#undef KDART_VK_LOAD
  return functions;
}

DeviceFunctions load_device_functions(PFN_vkGetDeviceProcAddr get, VkDevice device) {
  DeviceFunctions functions;
#define KDART_VK_NEED(name)                                          \
  functions.name = reinterpret_cast<PFN_##name>(get(device, #name)); \
  if (functions.name == nullptr) detail::fail(ErrorCode::driver_too_old, "the Vulkan device has no " #name);
  KDART_VK_DEVICE_FUNCTIONS(KDART_VK_NEED)
#undef KDART_VK_NEED
  return functions;
}

std::vector<VkPhysicalDevice> enumerate_devices(const InstanceFunctions& functions, VkInstance instance) {
  for (;;) {
    std::uint32_t count = 0;
    VkResult result = functions.vkEnumeratePhysicalDevices(instance, &count, nullptr);
    std::vector<VkPhysicalDevice> devices(count);
    if (result == VK_SUCCESS && count != 0)
      result = functions.vkEnumeratePhysicalDevices(instance, &count, devices.data());
    if (result == VK_INCOMPLETE) continue;  // one came meanwhile
    if (result == VK_ERROR_INITIALIZATION_FAILED || result == VK_ERROR_INCOMPATIBLE_DRIVER) return {};
    check_vk(result, "listing Vulkan's devices");
    devices.resize(count);
    return devices;
  }
}

Instance::Instance(std::shared_ptr<const Library> library, const OpenOptions& options)
    : library_(std::move(library)),
      api_version_(choose_version(*library_)),
      log_(std::make_unique<LogCallback>(options.log)) {
  const GlobalFunctions& global = library_->functions();
  const InstanceRequest request(*library_, api_version_, options.driver_checks, *log_);
  check_start(global.vkCreateInstance(&request.info, nullptr, &instance_), library_->file(),
              "creating a Vulkan instance");
  try {
    functions_ = load_instance_functions(global.vkGetInstanceProcAddr, instance_);
    if (options.driver_checks != DriverChecks::none && functions_.vkCreateDebugUtilsMessengerEXT != nullptr) {
      check_vk(functions_.vkCreateDebugUtilsMessengerEXT(instance_, &request.messenger, nullptr, &messenger_),
               "listening to Vulkan's checks");
    }
  } catch (...) {
    const auto destroy =
        reinterpret_cast<PFN_vkDestroyInstance>(global.vkGetInstanceProcAddr(instance_, "vkDestroyInstance"));
    if (destroy != nullptr) destroy(instance_, nullptr);
    throw;
  }
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) functions_.vkDestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  functions_.vkDestroyInstance(instance_, nullptr);
}

}  // namespace kdart::vulkan
