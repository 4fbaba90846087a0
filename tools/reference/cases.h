// Golden cases: inputs, states and float64 truth stored in a cases.safetensors (see kda.md section 6).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kdart/bf16.h"
#include "kdart/config.h"

namespace kdart::reference {

// Relative L2 bounds of one case.
struct Bounds {
  double decode_out = 0.0048;
  double decode_state = 0.0045;
  double prefill_out = 0.0055;
  double prefill_state = 0.0055;
};

struct Case {
  std::string name;
  std::uint64_t tokens = 0;
  std::vector<bf16> hidden;         // [tokens, hidden_size]
  std::vector<float> recurrent_in;  // [H, D, D] key-major
  std::vector<float> conv_in;       // [3 * qkv, 4], oldest first, slot 0 zero (the file holds the 3-slot form)
  std::vector<std::uint64_t> rows;  // of the result that `out` has, ascending; empty: all
  std::vector<float> out;           // truth, rounded to f32
  std::vector<float> recurrent_out;
  std::vector<float> conv_out;  // 4-slot form, slot 0 zero
  Bounds bounds;
};

// The base bounds for a case without `bounds.NAME` metadata: 1.6 times wider under 32 tokens. Nothing is inferred from
// the name.
[[nodiscard]] Bounds base_bounds(std::uint64_t tokens);

// Reads and checks every case against the geometry. Throws Error: io_error, bad_checkpoint (names file, tensor, found,
// expected; unknown suffixes, missing members, malformed or non-positive bounds and an empty file are refused).
[[nodiscard]] std::vector<Case> load_cases(const std::filesystem::path& file, const KdaConfig& config);
// The same over a file's bytes, for fuzzing.
[[nodiscard]] std::vector<Case> parse_cases(std::span<const std::byte> bytes, const std::string& name,
                                            const KdaConfig& config);

// ||x - truth|| / ||truth|| over the whole tensor in float64; 0 / 0 is 0, NaN or infinity anywhere gives NaN.
[[nodiscard]] double relative_l2(std::span<const float> x, std::span<const float> truth);
// The largest |x - truth| - (2^-8 |truth| + 1e-5) over slots 1..3 of a [channels, 4] window; passes when <= 0. NaN when
// any of them is not finite.
[[nodiscard]] double conv_max_excess(std::span<const float> x, std::span<const float> truth);

}  // namespace kdart::reference
