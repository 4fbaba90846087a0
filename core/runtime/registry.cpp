#include "kdart/registry.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <new>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "core/runtime/registry_table.h"

namespace kdart {

using detail::fail;
using detail::quote;

namespace {

bool is_backend_name(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' && std::all_of(name.begin(), name.end(), allowed);
}

// A backend that breaks its promise to throw Error alone must not take the caller down with it.
BackendStatus status_of(const detail::BackendEntry& entry, const OpenOptions& options) {
  BackendStatus status;
  status.backend = entry.name;
  try {
    return entry.factory().status(options);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::out_of_host_memory) throw;
    status.error = error.code();
    status.message = error.what();
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_host_memory, "the host is out of memory");
  } catch (const std::exception& error) {
    status.error = ErrorCode::driver_error;
    status.message = error.what();
  }
  return status;
}

std::string names_text() {
  std::string text;
  for (const detail::BackendEntry& entry : detail::backend_entries()) {
    if (!text.empty()) text += ", ";
    text += entry.name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

DeviceId DeviceId::parse(std::string_view text) {
  const std::size_t colon = text.find(':');
  DeviceId id;
  id.backend = text.substr(0, colon);
  bool good = is_backend_name(id.backend);
  if (good && colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id.index);
    good = error == std::errc{} && end == digits.data() + digits.size();
  }
  if (!good) {
    fail(ErrorCode::invalid_argument, "{} is not a device id: a backend's name and an index are, such as 'cpu:0'",
         quote(text));
  }
  return id;
}

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const detail::BackendEntry& entry : detail::backend_entries()) names.push_back(entry.name);
  return names;
}

std::vector<BackendStatus> list_backends(const OpenOptions& options) {
  std::vector<BackendStatus> list;
  for (const detail::BackendEntry& entry : detail::backend_entries()) list.push_back(status_of(entry, options));
  return list;
}

std::shared_ptr<GpuBackend> open_device(std::string_view text, const OpenOptions& options) {
  const DeviceId id = DeviceId::parse(text);
  const auto entries = detail::backend_entries();
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.name == id.backend; });
  if (entry == entries.end()) {
    fail(ErrorCode::driver_missing, "there is no backend {} in this build of kdart; it has: {}", quote(id.backend),
         names_text());
  }
  try {
    return entry->factory().open(id.index, options);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_host_memory, "opening {}: the host is out of memory", id.to_string());
  } catch (const std::exception& error) {
    fail(ErrorCode::driver_error, "opening {}: {}", id.to_string(), error.what());
  }
}

}  // namespace kdart
