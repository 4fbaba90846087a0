// MessagePack from bytes that nobody vouches for.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace kdart::hip {

// The document, or nothing and the reason in `problem`: it is too long or nests too deeply, has too many values or a
// key twice, has a value that JSON has not, ends too early or too late.
[[nodiscard]] nlohmann::json parse_msgpack(std::span<const std::byte> bytes, std::string& problem);

}  // namespace kdart::hip
