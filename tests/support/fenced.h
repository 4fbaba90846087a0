// Bytes that end where a closed page begins: a read past their end ends the test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>
#include <span>

namespace kdart::test {

class Fenced {
 public:
  // A copy.
  explicit Fenced(std::span<const std::byte> bytes) : size_(bytes.size()) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    open_ = (bytes.size() / page + 1) * page;
    mapping_ = mmap(nullptr, open_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapping_ != MAP_FAILED);
    REQUIRE(mprotect(base() + open_, page, PROT_NONE) == 0);
    mapped_ = open_ + page;
    if (!bytes.empty()) std::memcpy(data(), bytes.data(), bytes.size());
  }
  ~Fenced() { munmap(mapping_, mapped_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size_}; }
  // The same without its last bytes, at the fence again.
  [[nodiscard]] std::span<const std::byte> first(std::span<const std::byte> whole, std::size_t length) const {
    std::byte* const begin = base() + open_ - length;
    if (length != 0) std::memcpy(begin, whole.data(), length);
    return {begin, length};
  }

 private:
  [[nodiscard]] std::byte* base() const { return static_cast<std::byte*>(mapping_); }
  [[nodiscard]] std::byte* data() const { return base() + open_ - size_; }

  std::size_t size_, open_ = 0, mapped_ = 0;
  void* mapping_ = nullptr;
};

}  // namespace kdart::test
