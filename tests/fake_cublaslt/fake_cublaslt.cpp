#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "backends/cuda/cublaslt.h"
#include "kdart/bf16.h"
#include "tests/fake_cublaslt/control.h"

namespace kdart::cuda {

struct cublasLtContext {
  char unused = 0;
};
struct cublasLtMatmulDescOpaque {
  int compute, scale;
  std::int32_t transa = 0;
  std::uint32_t epilogue = 1;
  const void* bias = nullptr;
};
struct cublasLtMatrixLayoutOpaque {
  int type;
  std::uint64_t rows, cols;
  std::int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque {
  std::uint64_t workspace = 0;
  std::uint32_t reduction_mask = 7;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};

}  // namespace kdart::cuda

namespace kdart::fake_cublaslt {

using namespace cuda;  // NOLINT: the library's own names

namespace entry {

// Declared from the backend's own list: one that is added there and missing here leaves an undefined symbol.
#define KDART_FAKE_DECLARE(member, symbol, parameters) \
  __attribute__((visibility("default"))) cublasStatus_t member parameters __asm__(symbol);
KDART_CUBLASLT_FUNCTIONS(KDART_FAKE_DECLARE)
#undef KDART_FAKE_DECLARE
__attribute__((visibility("default"))) std::size_t get_version() __asm__("cublasLtGetVersion");

}  // namespace entry

namespace {

struct Fault {
  std::uint64_t countdown;
  cublasStatus_t status;
};

struct World {
  std::mutex mutex;
  std::vector<Algorithm> algorithms;
  std::map<std::string, std::uint64_t> calls;
  std::map<std::string, Fault> faults;
  std::vector<Call> products;
  std::vector<Question> questions;
  std::set<const void*> live;
  int violations = 0;
};

World& world() {
  static World instance;
  return instance;
}

constexpr Algorithm default_algorithm = {1, Order::ascending, 1, 0, 0, 0, CUBLAS_STATUS_SUCCESS, 0};

void reset() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.algorithms = {default_algorithm};
  w.calls.clear();
  w.faults.clear();
  w.products.clear();
  w.questions.clear();
  w.violations = 0;
}

// Every entry point runs through here, one at a time.
template <class Body>
cublasStatus_t enter(const char* symbol, const Body& body) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (w.algorithms.empty() && w.calls.empty()) w.algorithms = {default_algorithm};
  ++w.calls[symbol];
  const auto fault = w.faults.find(symbol);
  if (fault != w.faults.end() && --fault->second.countdown == 0) {
    const cublasStatus_t status = fault->second.status;
    w.faults.erase(fault);
    return status;
  }
  return body(w);
}

cublasStatus_t violated(World& w) {
  ++w.violations;
  return CUBLAS_STATUS_INVALID_VALUE;
}

template <class T, class... Values>
cublasStatus_t create(World& w, T** object, Values... values) {
  *object = new T{values...};
  w.live.insert(*object);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t destroy(World& w, T* object) {
  if (w.live.erase(object) == 0) return violated(w);
  delete object;
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t set(World& w, T& target, const void* value, std::size_t bytes) {
  if (bytes != sizeof target) return violated(w);
  std::memcpy(&target, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

const Algorithm* algorithm_of(const World& w, const cublasLtMatmulAlgo_t& algorithm) {
  const std::uint64_t index = algorithm.data[0];
  return index < w.algorithms.size() ? &w.algorithms[index] : nullptr;
}

bool all_alive(const World& w, std::initializer_list<const void*> objects) {
  return std::all_of(objects.begin(), objects.end(), [&](const void* object) { return w.live.contains(object); });
}

// The layouts of D[n, m] = op(A)[n, k] B[k, m], column by column, as the backend must put C = A B^T.
bool fits(const cublasLtMatmulDescOpaque& desc, const cublasLtMatrixLayoutOpaque& a,
          const cublasLtMatrixLayoutOpaque& b, const cublasLtMatrixLayoutOpaque& c,
          const cublasLtMatrixLayoutOpaque& d) {
  const auto wide = [](const cublasLtMatrixLayoutOpaque& x) { return static_cast<std::uint64_t>(x.ld) >= x.rows; };
  return desc.transa == CUBLAS_OP_T && a.rows == b.rows && a.cols == d.rows && b.cols == d.cols && c.rows == d.rows &&
         c.cols == d.cols && c.ld == d.ld && wide(a) && wide(b) && wide(d);
}

bool has_bias(const cublasLtMatmulDescOpaque& desc) {
  return desc.epilogue == CUBLASLT_EPILOGUE_BIAS;
}

bf16 element(const Call& call, Order order, std::uint64_t row, std::uint64_t column) {
  const auto* a = static_cast<const bf16*>(call.a) + row * static_cast<std::uint64_t>(call.lda);
  const auto* b = static_cast<const bf16*>(call.b) + column * static_cast<std::uint64_t>(call.ldb);
  const bool descending = order == Order::descending || (order == Order::by_rows && call.m > 64) ||
                          (order == Order::by_place && row >= call.m / 128 * 128);
  float sum = 0.0F;
  for (std::uint64_t i = 0; i < call.k; ++i) {
    const std::uint64_t at = descending ? call.k - 1 - i : i;
    sum += to_float(a[at]) * to_float(b[at]);
  }
  if (call.bias != nullptr && order != Order::without_bias)
    sum += to_float(static_cast<const bf16*>(call.bias)[column]);
  return to_bf16(sum);
}

cublasStatus_t multiply(const Call& call, Order order) {
  if (order == Order::fails) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (order == Order::fails_few_rows && call.m < 7) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (order == Order::does_nothing) return CUBLAS_STATUS_SUCCESS;
  auto* c = static_cast<bf16*>(const_cast<void*>(call.c));
  for (std::uint64_t row = 0; row < call.m; ++row) {
    for (std::uint64_t column = 0; column < call.n; ++column)
      c[row * static_cast<std::uint64_t>(call.ldc) + column] = element(call, order, row, column);
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

namespace entry {

std::size_t get_version() {
  return 130002;
}

cublasStatus_t create(cublasLtHandle_t* handle) {
  return enter("cublasLtCreate", [&](World& w) { return fake_cublaslt::create(w, handle); });
}
cublasStatus_t destroy(cublasLtHandle_t handle) {
  return enter("cublasLtDestroy", [&](World& w) { return fake_cublaslt::destroy(w, handle); });
}

cublasStatus_t layout_create(cublasLtMatrixLayout_t* layout, int type, std::uint64_t rows, std::uint64_t cols,
                             std::int64_t ld) {
  return enter("cublasLtMatrixLayoutCreate",
               [&](World& w) { return fake_cublaslt::create(w, layout, type, rows, cols, ld); });
}
cublasStatus_t layout_destroy(cublasLtMatrixLayout_t layout) {
  return enter("cublasLtMatrixLayoutDestroy", [&](World& w) { return fake_cublaslt::destroy(w, layout); });
}
cublasStatus_t layout_set(cublasLtMatrixLayout_t layout, int attribute, const void* value, std::size_t bytes) {
  return enter("cublasLtMatrixLayoutSetAttribute", [&](World& w) {
    if (!all_alive(w, {layout})) return violated(w);
    switch (attribute) {
      case CUBLASLT_MATRIX_LAYOUT_COLS:
        return set(w, layout->cols, value, bytes);
      case CUBLASLT_MATRIX_LAYOUT_LD:
        return set(w, layout->ld, value, bytes);
      default:
        return violated(w);
    }
  });
}

cublasStatus_t desc_create(cublasLtMatmulDesc_t* desc, int compute, int scale) {
  return enter("cublasLtMatmulDescCreate", [&](World& w) { return fake_cublaslt::create(w, desc, compute, scale); });
}
cublasStatus_t desc_destroy(cublasLtMatmulDesc_t desc) {
  return enter("cublasLtMatmulDescDestroy", [&](World& w) { return fake_cublaslt::destroy(w, desc); });
}
cublasStatus_t desc_set(cublasLtMatmulDesc_t desc, int attribute, const void* value, std::size_t bytes) {
  return enter("cublasLtMatmulDescSetAttribute", [&](World& w) {
    if (!all_alive(w, {desc})) return violated(w);
    switch (attribute) {
      case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(w, desc->transa, value, bytes);
      case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(w, desc->epilogue, value, bytes);
      case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(w, desc->bias, value, bytes);
      default:
        return violated(w);
    }
  });
}

cublasStatus_t preference_create(cublasLtMatmulPreference_t* preference) {
  return enter("cublasLtMatmulPreferenceCreate", [&](World& w) { return fake_cublaslt::create(w, preference); });
}
cublasStatus_t preference_destroy(cublasLtMatmulPreference_t preference) {
  return enter("cublasLtMatmulPreferenceDestroy", [&](World& w) { return fake_cublaslt::destroy(w, preference); });
}
cublasStatus_t preference_set(cublasLtMatmulPreference_t preference, int attribute, const void* value,
                              std::size_t bytes) {
  return enter("cublasLtMatmulPreferenceSetAttribute", [&](World& w) {
    if (!all_alive(w, {preference})) return violated(w);
    switch (attribute) {
      case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return set(w, preference->workspace, value, bytes);
      case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return set(w, preference->reduction_mask, value, bytes);
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(w, preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
      default:
        return violated(w);
    }
  });
}

cublasStatus_t heuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t* results,
                         int* count) {
  return enter("cublasLtMatmulAlgoGetHeuristic", [&](World& w) -> cublasStatus_t {
    if (!all_alive(w, {handle, desc, a, b, c, d, preference}) || !fits(*desc, *a, *b, *c, *d)) return violated(w);
    Question& asked = w.questions.emplace_back();
    asked = {b->cols, a->cols, a->rows, preference->workspace, preference->reduction_mask, {}, desc->bias};
    std::copy(std::begin(preference->alignments), std::end(preference->alignments), asked.alignments);
    *count = 0;
    for (std::size_t i = 0; i < w.algorithms.size() && *count < most; ++i) {
      if (w.algorithms[i].proposed_rows != 0 && w.algorithms[i].proposed_rows != b->cols) continue;
      cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
      result = {};
      result.algo.data[0] = i;
      result.workspaceSize = w.algorithms[i].workspace_bytes;
      result.state = w.algorithms[i].state;
    }
    return *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t algo_check(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                          const cublasLtMatmulAlgo_t* algorithm, cublasLtMatmulHeuristicResult_t* result) {
  return enter("cublasLtMatmulAlgoCheck", [&](World& w) -> cublasStatus_t {
    const Algorithm* found = algorithm_of(w, *algorithm);
    if (!all_alive(w, {handle, desc, a, b, c, d}) || !fits(*desc, *a, *b, *c, *d) || found == nullptr)
      return violated(w);
    result->workspaceSize = found->workspace_bytes;
    result->state = CUBLAS_STATUS_SUCCESS;
    return found->refused_rows == b->cols ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t algo_get(const cublasLtMatmulAlgo_t* algorithm, int attribute, void* value, std::size_t bytes,
                        std::size_t* written) {
  return enter("cublasLtMatmulAlgoConfigGetAttribute", [&](World& w) -> cublasStatus_t {
    const Algorithm* found = algorithm_of(w, *algorithm);
    if (found == nullptr || bytes != 4) return violated(w);
    *written = bytes;
    switch (attribute) {
      case CUBLASLT_ALGO_CONFIG_ID:
        std::memcpy(value, &found->id, bytes);
        return CUBLAS_STATUS_SUCCESS;
      case CUBLASLT_ALGO_CONFIG_TILE_ID:
        std::memset(value, 0, bytes);
        return CUBLAS_STATUS_SUCCESS;
      case CUBLASLT_ALGO_CONFIG_SPLITK_NUM:
        std::memcpy(value, &found->split_k, bytes);
        return CUBLAS_STATUS_SUCCESS;
      case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME:
        std::memcpy(value, &found->reduction_scheme, bytes);
        return CUBLAS_STATUS_SUCCESS;
      default:
        return violated(w);
    }
  });
}

cublasStatus_t matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                      cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                      const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                      const cublasLtMatmulAlgo_t* algorithm, void* workspace, std::size_t workspace_bytes,
                      CUstream stream) {
  return enter("cublasLtMatmul", [&](World& w) {
    const Algorithm* found = algorithm_of(w, *algorithm);
    if (!all_alive(w, {handle, desc, a_layout, b_layout, c_layout, d_layout}) || found == nullptr || c != d ||
        !fits(*desc, *a_layout, *b_layout, *c_layout, *d_layout) || *static_cast<const float*>(alpha) != 1.0F ||
        *static_cast<const float*>(beta) != 0.0F || (has_bias(*desc) && desc->bias == nullptr))
      return violated(w);
    const bool one_type = a_layout->type == b_layout->type && a_layout->type == d_layout->type;
    const Call call = {.algorithm = found->id,
                       .m = b_layout->cols,
                       .n = a_layout->cols,
                       .k = a_layout->rows,
                       .lda = b_layout->ld,
                       .ldb = a_layout->ld,
                       .ldc = d_layout->ld,
                       .a = b,
                       .b = a,
                       .bias = has_bias(*desc) ? desc->bias : nullptr,
                       .c = d,
                       .workspace = workspace,
                       .workspace_bytes = workspace_bytes,
                       .stream = stream,
                       .type = one_type ? a_layout->type : -1,
                       .compute = desc->compute,
                       .scale = desc->scale};
    w.products.push_back(call);
    return multiply(call, found->order);
  });
}

}  // namespace entry

namespace {

void propose(const Algorithm* algorithms, std::size_t count) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.algorithms.assign(algorithms, algorithms + count);
}

void fail(const char* symbol, std::uint64_t nth, int status) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  w.faults[symbol] = {nth, status};
}

std::uint64_t calls(const char* symbol) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const auto found = w.calls.find(symbol);
  return found == w.calls.end() ? 0 : found->second;
}

std::uint64_t products() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  return w.products.size();
}

bool product(std::uint64_t index, Call* call) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (index >= w.products.size()) return false;
  *call = w.products[index];
  return true;
}

bool question(std::uint64_t index, Question* asked) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  if (index >= w.questions.size()) return false;
  *asked = w.questions[index];
  return true;
}

int live() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  return static_cast<int>(w.live.size());
}

int violations() {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  return w.violations;
}

}  // namespace

}  // namespace kdart::fake_cublaslt

extern "C" __attribute__((visibility("default"))) const kdart::fake_cublaslt::Control kdart_fake_cublaslt;
const kdart::fake_cublaslt::Control kdart_fake_cublaslt = {.reset = kdart::fake_cublaslt::reset,
                                                           .propose = kdart::fake_cublaslt::propose,
                                                           .fail = kdart::fake_cublaslt::fail,
                                                           .calls = kdart::fake_cublaslt::calls,
                                                           .products = kdart::fake_cublaslt::products,
                                                           .product = kdart::fake_cublaslt::product,
                                                           .question = kdart::fake_cublaslt::question,
                                                           .live = kdart::fake_cublaslt::live,
                                                           .violations = kdart::fake_cublaslt::violations};
