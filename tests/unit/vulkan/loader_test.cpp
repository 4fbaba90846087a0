#include "backends/vulkan/loader.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "backends/vulkan/list.h"
#include "backends/vulkan/manifests.h"
#include "tests/fake_vulkan_loader.h"
#include "tests/support/expect_error.h"
#include "tests/unit/vulkan/fake_loader.h"

namespace kdart::test {

using vulkan::Instance;
using vulkan::Library;

namespace {

namespace fs = std::filesystem;

constexpr const char* checks_layer = "VK_LAYER_KHRONOS_validation";

OpenOptions with_path(std::string path) {
  return {.driver_path = std::move(path)};
}

// An environment variable for the length of a scope. The Vulkan loader reads its own at each instance.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name); old != nullptr) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    if (old_)
      setenv(name_, old_->c_str(), 1);
    else
      unsetenv(name_);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("kdart-vulkan-loader-" + std::to_string(getpid()))) {
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const fs::path& path() const { return path_; }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
    return path_ / name;
  }

 private:
  fs::path path_;
};

// The system's driver files, as the loader would find them.
std::vector<std::string> driver_files() {
  std::vector<std::string> files;
  if (const char* set = std::getenv("VK_DRIVER_FILES"); set != nullptr && *set != '\0') return {set};
  if (const char* set = std::getenv("VK_ICD_FILENAMES"); set != nullptr && *set != '\0') return {set};
  for (const char* folder : {"/etc/vulkan/icd.d", "/usr/local/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d",
                             "/usr/share/vulkan/icd.d"}) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
      if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  return files;
}

std::string joined(const std::vector<std::string>& files) {
  std::string text;
  for (const std::string& file : files) text += (text.empty() ? "" : ":") + file;
  return text;
}

std::vector<std::string> listed_names(const OpenOptions& options = {}) {
  const Instance instance(std::make_shared<const Library>(options), options);
  std::vector<std::string> names;
  for (const vulkan::ListedDevice& device : vulkan::list_devices(instance, options))
    names.push_back(device.plan.info.name);
  std::sort(names.begin(), names.end());
  return names;
}

// The fake loader, in its usual behaviour, and an instance made through it.
FakeLoader& fake_loader() {
  static void* const handle = dlopen(fake_vulkan_loader_path, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(handle != nullptr);
  auto* loader = static_cast<FakeLoader*>(dlsym(handle, fake_loader_symbol));
  REQUIRE(loader != nullptr);
  *loader = FakeLoader{};
  return *loader;
}

std::unique_ptr<Instance> fake_instance(OpenOptions options = {}) {
  options.driver_path = fake_vulkan_loader_path;
  return std::make_unique<Instance>(std::make_shared<const Library>(options), options);
}

std::vector<std::string> first_of(const std::array<char[VK_MAX_EXTENSION_NAME_SIZE], 4>& names, std::uint32_t count) {
  std::vector<std::string> list;
  for (std::uint32_t i = 0; i < count; ++i) list.emplace_back(names[i]);
  return list;
}

using Names = std::vector<std::string>;

}  // namespace

// --- opening the library ----------------------------------------------------------------------------------------------

TEST_CASE("a driver path that is not there is the only one tried", "[vulkan][loader]") {
  const std::string message =
      expect_error(ErrorCode::driver_missing, {"'/no/such/libvulkan.so.1'", "cannot open shared object file"},
                   [] { const Library library(with_path("/no/such/libvulkan.so.1")); });
  CHECK(message.find("libvulkan.so.1'", message.find("libvulkan.so.1'") + 1) == std::string::npos);  // no second name
  expect_error(ErrorCode::driver_missing, {"''", "empty"}, [] { const Library library(with_path("")); });
}

TEST_CASE("a library that is no Vulkan loader is not taken for one", "[vulkan][loader]") {
  expect_error(ErrorCode::driver_missing, {"'libm.so.6'", "vkGetInstanceProcAddr"},
               [] { const Library library(with_path("libm.so.6")); });
  fake_loader().absent = "*";
  expect_error(ErrorCode::driver_too_old, {fake_vulkan_loader_path, "vkCreateInstance"},
               [] { const Library library(with_path(fake_vulkan_loader_path)); });
}

TEST_CASE("every name is tried, and a copy that the process has comes before them", "[vulkan][loader]") {
  fake_loader();
  OpenOptions options;
  options.driver_names = {"/no/such/first.so", "libm.so.6", "/no/such/last.so"};
  if (dlopen("libvulkan.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr) {  // no earlier test opened it
    expect_error(ErrorCode::driver_missing,
                 {"'/no/such/first.so'", "'libm.so.6'", "vkGetInstanceProcAddr", "'/no/such/last.so'"},
                 [&] { const Library library(options); });
    options.driver_names.push_back(fake_vulkan_loader_path);
    CHECK(Library(options).file() == fake_vulkan_loader_path);
  }
  const Library system{OpenOptions{}};
  CHECK(fs::exists(system.file()));
  CHECK(system.file().find("libvulkan.so") != std::string::npos);
  CHECK(Library(options).file() == system.file());  // its names are not needed any more
  CHECK(Library(with_path(fake_vulkan_loader_path)).file() == fake_vulkan_loader_path);  // but a path is
}

TEST_CASE("no symbol of the opened library is visible to others", "[vulkan][loader]") {
  const Library library{OpenOptions{}};
  CHECK(dlsym(RTLD_DEFAULT, "vkGetInstanceProcAddr") == nullptr);
}

// --- the instance, with a fake loader ---------------------------------------------------------------------------------

TEST_CASE("an instance asks for 1.3 at most, and for no layer and no extension that is not used", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  loader.version = VK_MAKE_API_VERSION(0, 1, 4, 300);
  {
    const auto instance = fake_instance();
    CHECK(instance->api_version() == VK_API_VERSION_1_3);
    CHECK(loader.asked_version == VK_API_VERSION_1_3);
    CHECK(loader.layer_count == 0);
    CHECK(first_of(loader.extensions, loader.extension_count) == Names{"VK_KHR_portability_enumeration"});
    CHECK(loader.flags == VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR);
    CHECK(loader.live_instances == 1);
    CHECK(loader.live_messengers == 0);
  }
  CHECK(loader.live_instances == 0);

  loader.version = VK_MAKE_API_VERSION(0, 1, 2, 189);
  loader.has_portability = false;
  const auto instance = fake_instance();
  CHECK(instance->api_version() == VK_MAKE_API_VERSION(0, 1, 2, 189));
  CHECK(loader.extension_count == 0);
  CHECK(loader.flags == 0);
}

TEST_CASE("a loader of less than Vulkan 1.2 is too old", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  loader.version = VK_MAKE_API_VERSION(0, 1, 1, 130);
  expect_error(ErrorCode::driver_too_old, {fake_vulkan_loader_path, "1.1.130", "1.2"},
               [] { static_cast<void>(fake_instance()); });
  loader.version = 0;
  expect_error(ErrorCode::driver_too_old, {"1.0.0", "1.2"}, [] { static_cast<void>(fake_instance()); });
}

TEST_CASE("an instance that lacks an entry point is given back", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  loader.absent = "vkGetPhysicalDeviceFeatures2";
  expect_error(ErrorCode::driver_too_old, {"vkGetPhysicalDeviceFeatures2"}, [] { static_cast<void>(fake_instance()); });
  CHECK(loader.live_instances == 0);
  loader.absent = "vkCreateDebugUtilsMessengerEXT";  // not needed
  static_cast<void>(fake_instance());
}

TEST_CASE("a failed instance is reported as what it is", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  loader.create_result = VK_ERROR_INCOMPATIBLE_DRIVER;
  expect_error(ErrorCode::driver_missing, {fake_vulkan_loader_path, "no driver"},
               [] { static_cast<void>(fake_instance()); });
  loader.create_result = VK_ERROR_OUT_OF_HOST_MEMORY;
  expect_error(ErrorCode::out_of_host_memory, {"instance"}, [] { static_cast<void>(fake_instance()); });
  const Folder folder;
  const Environment files("VK_DRIVER_FILES", folder.write("broken.json", "no JSON"));
  expect_error(ErrorCode::driver_missing, {fake_vulkan_loader_path, "broken.json is no JSON"},
               [] { static_cast<void>(fake_instance()); });
  CHECK(loader.live_instances == 0);
}

TEST_CASE("checks turn the layer on, and its messages go to the log", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  loader.message_at_creation = "while it is made";
  std::vector<std::pair<LogSeverity, std::string>> log;
  OpenOptions options;
  options.driver_checks = DriverChecks::core;
  options.log = [&](LogSeverity severity, std::string_view text) { log.emplace_back(severity, text); };
  {
    const auto instance = fake_instance(options);
    CHECK(first_of(loader.layers, loader.layer_count) == Names{checks_layer});
    CHECK(first_of(loader.extensions, loader.extension_count) ==
          Names{"VK_KHR_portability_enumeration", "VK_EXT_debug_utils", "VK_EXT_validation_features"});
    REQUIRE(loader.check_count == 1);
    CHECK(loader.checks[0] == VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT);
    CHECK(loader.severities ==
          (VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT));
    REQUIRE(loader.callback != nullptr);
    VkDebugUtilsMessengerCallbackDataEXT data{};
    data.pMessageIdName = "VUID-1";
    data.pMessage = "a mistake";
    CHECK(loader.callback(VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT, VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT,
                          &data, loader.user) == VK_FALSE);
    REQUIRE(log.size() == 2);
    CHECK(log[0] == std::pair(LogSeverity::warning, std::string("Vulkan: while it is made")));
    CHECK(log[1] == std::pair(LogSeverity::error, std::string("VUID-1: a mistake")));
  }
  CHECK(loader.live_messengers == 0);
  CHECK(loader.live_instances == 0);

  options.driver_checks = DriverChecks::gpu_assisted;
  static_cast<void>(fake_instance(options));
  REQUIRE(loader.check_count == 2);
  CHECK(loader.checks[0] == VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_EXT);
  CHECK(loader.checks[1] == VK_VALIDATION_FEATURE_ENABLE_GPU_ASSISTED_RESERVE_BINDING_SLOT_EXT);
}

TEST_CASE("a log that throws or is not there does not disturb the driver", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  loader.message_at_creation = "something";
  OpenOptions options;
  options.driver_checks = DriverChecks::core;
  static_cast<void>(fake_instance(options));
  int calls = 0;
  options.log = [&](LogSeverity, std::string_view) {
    ++calls;
    throw std::runtime_error("the log is full");
  };
  static_cast<void>(fake_instance(options));
  CHECK(calls == 1);
}

TEST_CASE("checks without their layer are refused", "[vulkan][loader]") {
  FakeLoader& loader = fake_loader();
  OpenOptions options;
  options.driver_checks = DriverChecks::core;
  loader.has_checks_layer = false;
  expect_error(ErrorCode::unsupported, {"driver_checks", checks_layer, "not installed"},
               [&] { static_cast<void>(fake_instance(options)); });
  loader.has_checks_layer = true;
  loader.layer_has_features = false;
  expect_error(ErrorCode::unsupported, {"driver_checks", "VK_EXT_validation_features"},
               [&] { static_cast<void>(fake_instance(options)); });
  CHECK(loader.live_instances == 0);
}

// --- the system's loader and drivers ----------------------------------------------------------------------------------

TEST_CASE("the system's devices are listed by their ids", "[vulkan][loader]") {
  const OpenOptions options;
  const Instance instance(std::make_shared<const Library>(options), options);
  const auto devices = vulkan::list_devices(instance, options);
  REQUIRE_FALSE(devices.empty());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceInfo& info = devices[i].plan.info;
    INFO(info.name << ": " << info.unusable);
    CHECK(info.id == "vulkan:" + std::to_string(i));
    CHECK(info.driver_library == instance.library().file());
    CHECK_FALSE(info.driver_version.empty());
    CHECK(info.limits.threads_per_block > 0);
    for (const vulkan::HeapBudget& heap :
         vulkan::read_budgets(instance.functions(), devices[i].handle, devices[i].facts)) {
      CHECK(heap.usage <= heap.budget);
    }
  }
  CHECK(std::any_of(devices.begin(), devices.end(),
                    [](const vulkan::ListedDevice& device) { return device.plan.missing.empty(); }));
}

TEST_CASE("driver files that name nothing leave no driver", "[vulkan][loader]") {
  const Environment files("VK_DRIVER_FILES", "/no/such/driver.json");
  const Environment older("VK_ICD_FILENAMES", "/no/such/older.json");  // what loaders before 1.3.207 read
  expect_error(ErrorCode::driver_missing,
               {"libvulkan.so", "no driver", "VK_DRIVER_FILES is '/no/such/driver.json'", "VK_ICD_FILENAMES"},
               [] { static_cast<void>(listed_names()); });
}

TEST_CASE("a broken driver file hides no good one", "[vulkan][loader]") {
  const Names expected = listed_names();
  REQUIRE_FALSE(expected.empty());
  const Folder folder;
  Names files{folder.write("b_no_library.json", R"({"file_format_version": "1.0.0", "ICD": {"library_path":
                           "/no/such/libvulkan_driver.so", "api_version": "1.3.0"}})"),
              folder.write("c_no_driver.json", R"({"file_format_version": "1.0.0", "ICD": {"library_path":
                           "libm.so.6", "api_version": "1.3.0"}})"),
              folder.write("d_empty.json", "")};
  for (const std::string& file : driver_files()) files.push_back(file);
  const Environment broken("VK_DRIVER_FILES", joined(files));
  const Environment older("VK_ICD_FILENAMES", joined(files));
  CHECK(listed_names() == expected);
}

TEST_CASE("a driver file that is no JSON hides no good one, or is named", "[vulkan][loader]") {
  const Names expected = listed_names();
  const Folder folder;
  Names files{folder.write("no_json.json", "{ this is none")};
  for (const std::string& file : driver_files()) files.push_back(file);
  const Environment broken("VK_DRIVER_FILES", joined(files));
  const Environment older("VK_ICD_FILENAMES", joined(files));
  CHECK(vulkan::broken_driver_files() == Names{files[0]});
  try {
    const Names names = listed_names();
    CHECK(names == expected);
  } catch (const Error& error) {  // loaders up to 1.3.239 give up
    CHECK(error.code() == ErrorCode::driver_missing);
    CHECK(std::string(error.what()).find(files[0]) != std::string::npos);
  }
}

TEST_CASE("checks are refused where no layer lies", "[vulkan][loader]") {
  const Folder folder;
  const Environment path("VK_LAYER_PATH", folder.path());
  OpenOptions options;
  options.driver_checks = DriverChecks::gpu_assisted;
  expect_error(ErrorCode::unsupported, {checks_layer, "VK_LAYER_PATH", folder.path().string()},
               [&] { static_cast<void>(listed_names(options)); });
  static_cast<void>(listed_names());  // without checks nothing is needed
}

}  // namespace kdart::test
