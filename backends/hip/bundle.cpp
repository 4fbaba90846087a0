// clang's offload bundles: code for several targets in one file.
#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string>

#include "backends/common/elf.h"
#include "backends/hip/code_object.h"
#include "backends/hip/metadata.h"
#include "core/runtime/amd_target.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::hip {
namespace {

using common::Image;
using detail::quote;

constexpr std::string_view magic_bundle = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::string_view magic_compressed = "CCOB";

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

void refuse_compressed(const Image& image, std::span<const std::byte> bytes) {
  if (starts_with(bytes, magic_compressed))
    image.refuse("it is a compressed offload bundle, which is not read; --no-offload-compress makes a plain one");
}

// What an entry of the table says: where the code is, and for what.
struct Row {
  std::uint64_t offset = 0, size = 0;
  std::string_view id;
};

// "gfx90a" of "hipv4-amdgcn-amd-amdhsa--gfx90a"; nothing for the host's code, and for what HIP cannot load on a GPU.
std::optional<std::string_view> target_of(std::string_view id) {
  for (const std::string_view kind : {"hip-", "hipv4-"}) {
    if (id.starts_with(kind)) return target_of_triple(id.substr(kind.size()));
  }
  return std::nullopt;
}

std::vector<Row> read_table(const Image& image, std::uint64_t& end) {
  std::uint64_t at = magic_bundle.size();
  const auto next = [&](std::string_view what) {
    const auto value = image.read<std::uint64_t>(at, what);
    at += sizeof value;
    return value;
  };
  const auto count = next("the number of entries");
  std::vector<Row> rows;
  for (std::uint64_t i = 0; i < count; ++i) {  // each takes bytes: an image ends before a great count does
    Row row;
    row.offset = next("an entry");
    row.size = next("an entry");
    const auto length = next("an entry");
    const auto id = image.part(at, length, "the target of an entry");
    row.id = {reinterpret_cast<const char*>(id.data()), id.size()};
    at += length;
    static_cast<void>(image.part(row.offset, row.size, detail::format("the entry {}", quote(row.id))));
    rows.push_back(row);
  }
  end = at;
  return rows;
}

void check_apart(const Image& image, std::vector<Row> rows, std::uint64_t table_end) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.offset < b.offset; });
  std::uint64_t end = table_end;
  for (const Row& row : rows) {
    if (row.size == 0) continue;
    if (row.offset < end)
      image.refuse("the entry {} begins at {}, within what is before it", quote(row.id), row.offset);
    end = row.offset + row.size;
  }
}

// "gfx90a (it is for gfx90a, and the device is gfx1100), .."
std::string list_of(const std::vector<BundleEntry>& entries, std::string_view device_target) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < entries.size() && i < most; ++i) {
    text += detail::format("{}{} ({})", i == 0 ? "" : ", ", entries[i].target,
                           detail::fit_amd_target(entries[i].target, device_target).reason);
  }
  if (entries.size() > most) text += detail::format(" and {} others", entries.size() - most);
  return text.empty() ? "nothing for AMD GPUs" : text;
}

}  // namespace

std::vector<BundleEntry> read_bundle(std::span<const std::byte> bytes, std::string_view file) {
  const Image image(bytes, file);
  refuse_compressed(image, bytes);
  if (!starts_with(bytes, magic_bundle)) image.refuse("it is no offload bundle");
  std::uint64_t table_end = 0;
  const std::vector<Row> rows = read_table(image, table_end);
  check_apart(image, rows, table_end);

  std::vector<BundleEntry> entries;
  std::set<std::string> seen;
  for (const Row& row : rows) {
    const auto text = target_of(row.id);
    if (!text) continue;
    const auto target = detail::parse_amd_target(*text);
    if (!target) image.refuse("its entry {} is for no AMD target", quote(row.id));
    // In any order of the features.
    if (!seen.insert(detail::format("{}{}{}", target->processor, target->sramecc, target->xnack)).second)
      image.refuse("it has two entries for {}", *text);
    entries.push_back({*text, image.part(row.offset, row.size, "an entry")});
  }
  return entries;
}

std::span<const std::byte> find_code_object(std::span<const std::byte> bytes, std::string_view device_target,
                                            std::string_view file) {
  if (starts_with(bytes, ELFMAG)) return bytes;
  const Image image(bytes, file);
  refuse_compressed(image, bytes);
  if (!starts_with(bytes, magic_bundle)) image.refuse("it is neither a code object nor an offload bundle");

  const std::vector<BundleEntry> entries = read_bundle(bytes, file);
  const BundleEntry* best = nullptr;
  detail::AmdFit best_fit;
  for (const BundleEntry& entry : entries) {
    detail::AmdFit fit = detail::fit_amd_target(entry.target, device_target);
    if (!fit.fits() || (best != nullptr && fit.rank <= best_fit.rank)) continue;
    best = &entry;
    best_fit = std::move(fit);
  }
  if (best == nullptr) {
    detail::fail(ErrorCode::no_matching_image, "image {}: it has no code for the device {}; it holds {}", quote(file),
                 quote(device_target), list_of(entries, device_target));
  }
  return best->bytes;
}

}  // namespace kdart::hip
