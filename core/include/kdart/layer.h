// One KDA layer on one device: decode, k-row decode with snapshots, chunked prefill; and its core alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/backend.h"
#include "kdart/config.h"
#include "kdart/export.h"
#include "kdart/kernel_set.h"
#include "kdart/state.h"
#include "kdart/weights.h"
#include "kdart/workspace.h"

namespace kdart {

// The three spans of a layer call, in this order. A call that runs in pieces records them once per piece.
enum class KdaSpan : std::uint8_t {
  front_end,   // projections (or packing), convolution and L2, gates
  recurrence,  // the state's update and the core's output
  back_end,    // norm, gate, output projection
};

// Told where each span of a call begins and ends in its stream, on the calling thread, for instance to record events.
// An exception from it leaves through the layer call.
class KdaProfiler {
 public:
  virtual ~KdaProfiler() = default;
  virtual void begin(KdaSpan span, Stream stream) = 0;
  virtual void end(KdaSpan span, Stream stream) = 0;
};

// A route fixes the order of every sum, and so the bits. It is chosen when the layer is made, from kernel set, geometry
// and options, never by the number of rows.
enum class KdaRoute : std::uint8_t {
  automatic,  // the best that set and device offer
  reference,  // the order of kda.md section 3, in all products too: the same bits on every device
};

// Who does prefill's matrix products, for any number of tokens; decode never takes a service (gemm_service.h). Decided
// when the layer is made, product by product, from device, geometry and options.
enum class KdaGemm : std::uint8_t {
  automatic,  // the device's GEMM service where it has one that takes the shape; else, and on the reference route, own
  own,        // the kernel set's dense_gemm_bf16
  service,    // as automatic; unsupported where there is no service, or where it takes no product
};

// How many of a layer's prefill products each does.
struct KdaPrefillGemm {
  std::uint32_t service = 0;
  std::uint32_t own = 0;
};

struct KdaOptions {
  KdaRoute route = KdaRoute::automatic;
  KdaGemm gemm = KdaGemm::automatic;  // `service` with the reference route is invalid_argument
  // Kernels to treat as absent from the set. A required one among them, or a name the contract does not have, is
  // kernel_not_found.
  std::vector<std::string> without = {};
  // Tokens per chunk of the prefill recurrence: 16 or 32.
  std::uint32_t chunk = 16;
  // Splits longer prompts at chunk boundaries, exactly; rounded down to whole chunks, at least one. 0: the device's own.
  std::uint32_t max_tokens_per_launch = 0;
  // A loaded set to share between layers. Null: the set that is built in for the backend is loaded for this layer.
  std::shared_ptr<LoadedSet> kernels = {};
  // Not owned; must outlive the layer. Null costs nothing.
  KdaProfiler* profiler = nullptr;
};

// Device copies of one layer's weights. Immutable, shareable between layers and threads.
class KdaDeviceWeights {
 public:
  // Uploads (blocking). Validates first; throws invalid_argument, out_of_device_memory.
  [[nodiscard]] static KDART_API std::shared_ptr<const KdaDeviceWeights> upload(std::shared_ptr<GpuBackend> backend,
                                                                                const KdaWeights& weights);

  KdaConfig config;
  DevicePtr qkv_proj;                              // bf16 [3*qkv, hidden]: q | k | v
  DevicePtr conv;                                  // bf16 [3*qkv, 4]
  DevicePtr f_a_proj, f_b_proj;                    // bf16
  DevicePtr g_a_proj, g_b_proj, g_b_bias, g_proj;  // bf16; null where the geometry has none
  DevicePtr b_proj, o_proj, o_norm;                // bf16
  DevicePtr a_log, dt_bias;                        // f32

  [[nodiscard]] const std::shared_ptr<GpuBackend>& backend() const noexcept { return backend_; }

 private:
  KdaDeviceWeights() = default;
  std::shared_ptr<GpuBackend> backend_;
  Buffer memory_;
};

// What the core takes when an engine does its own projections: row-major bf16, the rows of all six alike. Addresses are
// multiples of 2.
struct KdaCoreInputs {
  DevicePtr q, k, v;  // [tokens, qkv]
  DevicePtr f;        // [tokens, qkv]  decay
  DevicePtr b;        // [tokens, H]    beta before the sigmoid
  DevicePtr z;        // [tokens, qkv]  output gate before the sigmoid
};

// Immutable and shareable: any number of threads may call one layer, each with a state and workspace of its own.
//
// Every call submits to `stream` and returns; results are there once the stream has been synchronised. It checks first
// and launches after: a refused call (invalid_argument, invalid_handle) has launched nothing and changed nothing. No call
// allocates. `hidden` is bf16 [tokens, hidden_size], 16-byte aligned; `out` is bf16 [tokens, hidden_size], a multiple of
// 2, ws.final_out() when null; it may be `hidden` itself. state and ws must have the layer's geometry and backend.
//
// Inside one route and on one device: decode, decode_k and any cutting of one into the other give the same bits, and so
// does the same call twice. prefill(a) then prefill(b) equals prefill(a+b) within bounds, bit for bit when a is a
// multiple of the chunk.
class KdaLayer {
 public:
  // Uploads the weights and prepares every kernel it can launch. Throws what upload and load throw; kernel_not_found
  // when the set lacks a required kernel; unsupported when the device cannot run one (names kernel, need and limit).
  KDART_API KdaLayer(std::shared_ptr<GpuBackend> backend, const KdaWeights& weights, KdaOptions options = {});
  KDART_API explicit KdaLayer(std::shared_ptr<const KdaDeviceWeights> weights, KdaOptions options = {});
  KDART_API ~KdaLayer();
  KDART_API KdaLayer(KdaLayer&&) noexcept;
  KDART_API KdaLayer& operator=(KdaLayer&&) noexcept;

  [[nodiscard]] KDART_API const KdaConfig& config() const noexcept;
  [[nodiscard]] KDART_API const std::shared_ptr<GpuBackend>& backend() const noexcept;
  [[nodiscard]] KDART_API const std::shared_ptr<LoadedSet>& kernels() const noexcept;
  // Of the kernel set, never automatic. Prefill's products have their order only where prefill_gemm().service is 0.
  [[nodiscard]] KDART_API KdaRoute route() const noexcept;
  [[nodiscard]] KDART_API KdaPrefillGemm prefill_gemm() const noexcept;
  [[nodiscard]] KDART_API std::string_view recurrent_kernel() const noexcept;  // "recurrent_smem" or "recurrent"

  // One token; both states updated in place.
  KDART_API void decode(DevicePtr hidden, KdaState& state, KdaWorkspace& ws, Stream stream, DevicePtr out = {}) const;

  // `tokens` tokens of one sequence, projections batched, recurrence row by row: the bits of as many decode calls.
  // snapshots[t] receives both states after row t; rows past the end of the list take none. 0 tokens, more than
  // ws.max_tokens(), or more snapshots than tokens are refused.
  KDART_API void decode_k(DevicePtr hidden, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                          std::span<const StateSnapshot> snapshots, Stream stream, DevicePtr out = {}) const;

  // `tokens` tokens of one sequence, chunked.
  KDART_API void prefill(DevicePtr hidden, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws, Stream stream,
                         DevicePtr out = {}) const;
  // The same with `value` (NaN included) written to the q, k, v rows between `tokens` and the end of the last chunk, and
  // 0 to those of gate and beta: shows that neither output nor state depends on padding.
  KDART_API void prefill_with_pad_fill(DevicePtr hidden, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                                       Stream stream, float value, DevicePtr out = {}) const;

  // The core alone, for engines with projections of their own: `out` is bf16 [tokens, qkv], what o_proj takes.
  KDART_API void decode_k_core(const KdaCoreInputs& inputs, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                               std::span<const StateSnapshot> snapshots, Stream stream, DevicePtr out) const;
  KDART_API void prefill_core(const KdaCoreInputs& inputs, std::uint32_t tokens, KdaState& state, KdaWorkspace& ws,
                              Stream stream, DevicePtr out) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace kdart
