#include "bench_options.h"

namespace kdart::probe {
namespace {

std::vector<std::uint32_t> default_tokens(Mode mode, bool on_cpu) {
  if (mode == Mode::decode) return {1};
  if (mode == Mode::decode_k) return on_cpu ? std::vector<std::uint32_t>{4} : std::vector<std::uint32_t>{4, 16};
  return on_cpu ? std::vector<std::uint32_t>{64} : std::vector<std::uint32_t>{512, 2048, 8192};
}

}  // namespace

std::vector<BenchCase> bench_cases(const BenchOptions& options, DeviceType type) {
  std::vector<BenchCase> cases;
  for (const std::uint32_t batch : options.batches) cases.push_back({Mode::decode, 1, batch});
  if (!cases.empty()) return cases;
  for (const Mode mode : options.modes) {
    const bool given = mode == Mode::prefill || (mode == Mode::decode_k && options.modes.size() == 1);
    const std::vector<std::uint32_t> tokens =
        given && !options.tokens.empty() ? options.tokens : default_tokens(mode, type == DeviceType::cpu);
    for (const std::uint32_t n : tokens) cases.push_back({mode, n});
  }
  return cases;
}

}  // namespace kdart::probe
