// Which address ranges are known: live device allocations and imports, or pinned host memory.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>

namespace kdart::detail {

// True when [address, address + bytes) does not wrap past the end of the address space.
[[nodiscard]] constexpr bool range_fits(std::uint64_t address, std::uint64_t bytes) noexcept {
  return bytes <= std::numeric_limits<std::uint64_t>::max() - address;
}

enum class RangeKind : std::uint8_t { allocation, import };

struct Range {
  std::uint64_t bytes = 0;
  RangeKind kind = RangeKind::allocation;
};

// Disjoint, non-empty ranges by address. Not synchronised.
class RangeMap {
 public:
  struct Entry {
    std::uint64_t address;
    Range range;
  };

  // The range that overlaps [address, address + bytes), if one does; the lowest when several do.
  [[nodiscard]] std::optional<Entry> overlapping(std::uint64_t address, std::uint64_t bytes) const {
    if (const auto before = at_or_before(address); before && address - before->address < before->range.bytes) {
      return before;
    }
    const auto after = ranges_.upper_bound(address);
    if (after != ranges_.end() && after->first - address < bytes) return Entry{after->first, after->second};
    return std::nullopt;
  }
  // False, and nothing is inserted, when the range is empty, wraps, or overlaps another.
  bool insert(std::uint64_t address, Range range) {
    if (range.bytes == 0 || !range_fits(address, range.bytes) || overlapping(address, range.bytes)) return false;
    return ranges_.emplace(address, range).second;
  }
  // The range that begins at exactly `address` and is of `kind`, taken out.
  std::optional<Range> remove(std::uint64_t address, RangeKind kind) {
    const auto found = ranges_.find(address);
    if (found == ranges_.end() || found->second.kind != kind) return std::nullopt;
    const Range range = found->second;
    ranges_.erase(found);
    return range;
  }
  // The range that `address` lies in, or the nearest one that begins before it.
  [[nodiscard]] std::optional<Entry> at_or_before(std::uint64_t address) const {
    auto next = ranges_.upper_bound(address);
    if (next == ranges_.begin()) return std::nullopt;
    --next;
    return Entry{next->first, next->second};
  }
  // True when all of [address, address + bytes) lies in one range. `bytes` is not 0.
  [[nodiscard]] bool covers(std::uint64_t address, std::uint64_t bytes) const {
    const auto entry = at_or_before(address);
    if (!entry) return false;
    const std::uint64_t offset = address - entry->address;
    return offset < entry->range.bytes && bytes <= entry->range.bytes - offset;
  }
  [[nodiscard]] const std::map<std::uint64_t, Range>& all() const noexcept { return ranges_; }

 private:
  std::map<std::uint64_t, Range> ranges_;
};

}  // namespace kdart::detail
