#include "layer_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/runtime/sha256.h"
#include "sample_rows.h"
#include "tools/reference/random_model.h"

namespace kdart::probe {
namespace {

constexpr std::string_view other_than_recurrent = "recurrent_smem";

// The same layer with `recurrent` in place of `recurrent_smem`, where the layer takes the latter; they must agree in
// every bit. Shares the loaded kernels and the weights.
std::optional<KdaLayer> make_other(const KdaLayer& layer, const std::shared_ptr<const KdaDeviceWeights>& weights,
                                   KdaOptions options) {
  if (layer.recurrent_kernel() != other_than_recurrent) return std::nullopt;
  options.kernels = layer.kernels();
  options.without.emplace_back(other_than_recurrent);
  return KdaLayer(weights, std::move(options));
}

// Behind those of earlier runs of the row.
void take_hashes(ResultRow& row, const RunResult& run) {
  row.out_sha256 += run.out_sha256();
  row.state_sha256 += run.state_sha256();
}

std::string hash_of(const std::string& text) {
  return detail::sha256_hex(std::as_bytes(std::span(text)));
}

std::vector<float> rounded(const std::vector<double>& values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), [](double x) { return static_cast<float>(x); });
  return result;
}

}  // namespace

struct LayerRunner::Sequence {
  const reference::Case& truth;
  std::uint32_t tokens;
  std::uint64_t row_bytes;
  Buffer hidden;
  Buffer out;
};

LayerRunner::LayerRunner(const std::shared_ptr<GpuBackend>& backend, KdaWorkspace workspace, const KdaWeights& weights,
                         const KdaOptions& options)
    : backend_(backend),
      stream_(backend),
      workspace_(std::move(workspace)),
      weights_(KdaDeviceWeights::upload(backend, weights)),
      layer_(weights_, options),
      other_(make_other(layer_, weights_, options)),
      state_(backend, weights.config) {}

std::vector<ResultRow> LayerRunner::run(const reference::Case& input, const std::vector<Mode>& modes,
                                        const OnTokens& on_tokens) {
  const std::uint64_t row_bytes = std::uint64_t{layer_.config().hidden_size} * sizeof(bf16);
  const std::uint64_t bytes = input.tokens * row_bytes;
  const auto tokens = static_cast<std::uint32_t>(input.tokens);
  const Sequence sequence{input, tokens, row_bytes, Buffer(backend_, bytes), Buffer(backend_, bytes)};
  backend_->copy_h2d(sequence.hidden.get(), input.hidden.data(), bytes);

  RunResult decoded;
  if (!std::all_of(modes.begin(), modes.end(), is_prefill)) {
    decoded = execute(layer_, sequence, plan(Mode::decode, tokens).front(), on_tokens);
  }
  std::vector<ResultRow> rows;
  for (const Mode mode : modes) {
    if (plan(mode, tokens).empty()) continue;
    if (mode == Mode::decode) {
      rows.push_back(run_decode(sequence, decoded, on_tokens));
    } else if (mode == Mode::decode_k) {
      rows.push_back(run_decode_k(sequence, decoded, on_tokens));
    } else {
      rows.push_back(run_prefill(sequence, mode, on_tokens));
    }
  }
  for (ResultRow& row : rows) {
    row.case_name = input.name;
    row.tokens = tokens;
    row.route = layer_.route();
    row.bounds = bounds_of(row.mode, input.bounds);
    row.pass = passes(row.figures, row.bounds, row.bits_equal_decode, row.bits_equal_recurrent);
  }
  return rows;
}

std::uint64_t LayerRunner::work(std::uint32_t tokens, const std::vector<Mode>& modes) const {
  const bool decodes = !std::all_of(modes.begin(), modes.end(), is_prefill);
  std::uint64_t runs = decodes ? 1 : 0;  // decode itself, also when it only serves decode_k
  for (const Mode mode : modes) {
    if (mode != Mode::decode) runs += plan(mode, tokens).size();
    if (!is_prefill(mode) && other_.has_value()) ++runs;
  }
  return runs * tokens;
}

ResultRow LayerRunner::run_decode(const Sequence& sequence, const RunResult& decoded, const OnTokens& on_tokens) {
  ResultRow row;
  row.mode = Mode::decode;
  row.figures = measure(decoded, sequence.truth);
  take_hashes(row, decoded);
  row.seconds_per_token = decoded.seconds / sequence.tokens;
  row.bits_equal_recurrent =
      equals_other_recurrent(sequence, plan(Mode::decode, sequence.tokens).front(), decoded, on_tokens);
  return row;
}

ResultRow LayerRunner::run_decode_k(const Sequence& sequence, const RunResult& decoded, const OnTokens& on_tokens) {
  const Pieces pieces = plan(Mode::decode_k, sequence.tokens).front();
  const RunResult result = execute(layer_, sequence, pieces, on_tokens);
  ResultRow row;
  row.mode = Mode::decode_k;
  row.figures = measure(result, sequence.truth);
  take_hashes(row, result);
  row.seconds_per_token = result.seconds / sequence.tokens;
  row.bits_equal_decode = bits_equal(result, decoded);
  row.bits_equal_recurrent = equals_other_recurrent(sequence, pieces, result, on_tokens);
  return row;
}

// The worst of all cuts; their time is the mean.
ResultRow LayerRunner::run_prefill(const Sequence& sequence, Mode mode, const OnTokens& on_tokens) {
  const std::vector<Pieces> runs = plan(mode, sequence.tokens);
  ResultRow row;
  row.mode = mode;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunResult result = execute(layer_, sequence, runs[i], on_tokens);
    const Figures figures = measure(result, sequence.truth);
    row.figures = i == 0 ? figures : worse(row.figures, figures);
    take_hashes(row, result);
    row.seconds_per_token += result.seconds / sequence.tokens / static_cast<double>(runs.size());
  }
  if (runs.size() > 1) {
    row.out_sha256 = hash_of(row.out_sha256);
    row.state_sha256 = hash_of(row.state_sha256);
  }
  return row;
}

std::optional<bool> LayerRunner::equals_other_recurrent(const Sequence& sequence, const Pieces& pieces,
                                                        const RunResult& run, const OnTokens& on_tokens) {
  if (!other_) return std::nullopt;
  return bits_equal(run, execute(*other_, sequence, pieces, on_tokens));
}

RunResult LayerRunner::execute(const KdaLayer& layer, const Sequence& sequence, const Pieces& pieces,
                               const OnTokens& on_tokens) {
  state_.import_recurrent(sequence.truth.recurrent_in);
  state_.import_conv(sequence.truth.conv_in);

  RunResult result;
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t first = 0;
  for (const Piece& piece : pieces) {
    submit(layer, sequence, piece, first);
    first += piece.tokens;
    if (on_tokens) {
      backend_->synchronize(stream_.get());
      on_tokens(piece.tokens);
    }
  }
  backend_->synchronize(stream_.get());
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();

  const KdaConfig& config = layer.config();
  result.out.resize(std::size_t{sequence.tokens} * config.hidden_size);
  result.recurrent.resize(config.recurrent_elements());
  result.conv.resize(config.conv_elements());
  backend_->copy_d2h(result.out.data(), sequence.out.get(), sequence.out.bytes());
  state_.export_recurrent(std::span<float>(result.recurrent));
  state_.export_conv(std::span<float>(result.conv));
  return result;
}

void LayerRunner::submit(const KdaLayer& layer, const Sequence& sequence, const Piece& piece, std::uint64_t first) {
  const std::uint64_t offset = first * sequence.row_bytes;
  const DevicePtr hidden = sequence.hidden.get().offset(offset);  // widths are multiples of 8: each row is aligned
  const DevicePtr out = sequence.out.get().offset(offset);
  const Stream stream = stream_.get();
  switch (piece.call) {
    case Call::decode:
      layer.decode(hidden, state_, workspace_, stream, out);
      return;
    case Call::decode_k:
      layer.decode_k(hidden, piece.tokens, state_, workspace_, {}, stream, out);
      return;
    case Call::prefill:
      layer.prefill(hidden, piece.tokens, state_, workspace_, stream, out);
      return;
  }
}

reference::Case random_case(const KdaWeights& weights, std::uint32_t tokens, std::uint64_t seed,
                            std::vector<std::uint64_t> rows, const reference::OnTokens& on_tokens) {
  const KdaConfig& config = weights.config;
  reference::Case result;
  result.name = "random";
  result.tokens = tokens;
  result.hidden = reference::random_hidden(config, tokens, seed);
  result.recurrent_in = reference::random_recurrent(config, seed);
  result.conv_in = reference::random_conv(config, seed);
  result.bounds = reference::base_bounds(tokens);
  result.rows = std::move(rows);

  reference::State state{{result.recurrent_in.begin(), result.recurrent_in.end()},
                         {result.conv_in.begin(), result.conv_in.end()}};
  const std::vector<std::uint64_t> wanted = result.rows.empty() ? sample_rows(tokens, tokens, seed) : result.rows;
  result.out = rounded(reference::forward_rows(weights, result.hidden, tokens, state, wanted, on_tokens));
  result.recurrent_out = rounded(state.recurrent);
  result.conv_out = rounded(state.conv);
  return result;
}

}  // namespace kdart::probe
