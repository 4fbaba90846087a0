#include "backends/cuda/gemm.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/device.h"
#include "backends/cuda/gemm_problem.h"
#include "core/runtime/abandon.h"
#include "core/runtime/backend_submit.h"
#include "core/runtime/fail.h"
#include "core/runtime/messages.h"
#include "core/runtime/product_check.h"
#include "kdart/owned.h"

namespace kdart::cuda {
namespace {

using detail::fail;

// Numbers of rows that an algorithm must take: around every tile's edge, and many tiles.
constexpr std::array<std::uint32_t, 11> row_counts = {1, 2, 7, 16, 17, 64, 100, 128, 129, 1000, 4096};
// Numbers of rows that cuBLASLt proposes algorithms for: a prompt's first, then shorter ones', whose algorithms are simpler.
constexpr std::array<std::uint32_t, 3> typical_rows = {4096, 512, 64};
constexpr std::size_t most_candidates = 8;  // for each of them

// cuBLASLt's own static objects are gone before those of a program that keeps a device in one: from then on its handles
// must be left alone. The exit handler is set once the library is open, so it runs before them.
std::atomic<bool> exiting{false};

void watch_for_exit() {
  static const bool watched = std::atexit([] { exiting.store(true); }) == 0;
  static_cast<void>(watched);
}

std::string product_text(const GemmShape& shape) {
  return detail::format("cuBLASLt product {} x {}{}", shape.n, shape.k, shape.bias ? " with a bias" : "");
}

// An attribute of an algorithm that cannot be read is one that it may not have as it should.
template <class T>
std::optional<T> configured(const CublasLtFunctions& lt, const cublasLtMatmulAlgo_t& algorithm, int attribute) {
  T value{};
  std::size_t written = 0;
  const cublasStatus_t status = lt.algo_get(&algorithm, attribute, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? std::optional<T>(value) : std::nullopt;
}

bool splits_k(const CublasLtFunctions& lt, const cublasLtMatmulAlgo_t& algorithm) {
  const auto parts = configured<std::int32_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  const auto scheme = configured<std::uint32_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  return !parts || *parts < 0 || *parts > 1 || !scheme || *scheme != CUBLASLT_REDUCTION_SCHEME_NONE;
}

std::string algorithm_text(const CublasLtFunctions& lt, const cublasLtMatmulAlgo_t& algorithm) {
  return detail::format("algorithm {}, tile {}",
                        configured<std::int32_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_ID).value_or(-1),
                        configured<std::uint32_t>(lt, algorithm, CUBLASLT_ALGO_CONFIG_TILE_ID).value_or(0));
}

}  // namespace

class CublasLtGemm final : public GemmService {
 public:
  // Throws what opening and starting cuBLASLt throws.
  explicit CublasLtGemm(CudaBackend& backend);
  ~CublasLtGemm() override;
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;
  [[nodiscard]] static std::unique_ptr<GemmService> open(CudaBackend& backend);

  [[nodiscard]] bool prepare(std::uint32_t n, std::uint32_t k, bool bias) override;
  void gemm_bf16(DevicePtr a, DevicePtr b, DevicePtr bias, DevicePtr c, std::uint32_t m, std::uint32_t n,
                 std::uint32_t k, std::uint32_t lda, std::uint32_t ldb, std::uint32_t ldc, DevicePtr workspace,
                 std::uint64_t workspace_size, Stream stream) override;
  [[nodiscard]] std::uint64_t workspace_bytes(std::uint32_t, std::uint32_t, std::uint32_t) const override {
    return gemm_workspace_bytes;
  }

 private:
  class Bench;
  class Lease;

  // What a prepared shape has.
  struct Plan {
    cublasLtMatmulAlgo_t algorithm;
    const std::string* name;  // for the report of a fault
    std::mutex mutex;
    std::vector<std::unique_ptr<GemmProblem>> idle;  // descriptors that no call uses now
  };

  // The plan, null where no algorithm keeps the promise; nothing when the shape was not prepared.
  [[nodiscard]] std::optional<Plan*> find(const GemmShape& shape);
  [[nodiscard]] std::unique_ptr<Plan> choose(const GemmShape& shape);
  [[nodiscard]] bool takes_every_m(GemmProblem& problem, const cublasLtMatmulAlgo_t& algorithm);
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> candidates(const GemmShape& shape, DevicePtr bias);
  // Why cuBLASLt did not take a call. Throws what the driver says when a fault is behind it.
  [[noreturn]] void fail_product(cublasStatus_t status, const GemmShape& shape);
  void require_context(std::string_view doing);

  CudaBackend& backend_;
  CublasLtLibrary library_;
  const CublasLtFunctions& lt_;
  cublasLtHandle_t handle_ = nullptr;
  std::mutex choosing_;
  std::shared_mutex plans_mutex_;
  std::map<GemmShape, std::unique_ptr<Plan>> plans_;
};

// --- opening ----------------------------------------------------------------------------------------------------------

CublasLtGemm::CublasLtGemm(CudaBackend& backend)
    : backend_(backend),
      library_(backend.options(), backend.context_->library().cuda_version()),
      lt_(library_.functions()) {
  const std::string started = detail::format("{}: matrix products by cuBLASLt {} ({})", backend_.info().id,
                                             library_.version(), library_.file());
  check_cublas(lt_.create(&handle_), detail::format("starting cuBLASLt {}", detail::quote(library_.file())));
  watch_for_exit();
  backend_.log(LogSeverity::info, started);
}

CublasLtGemm::~CublasLtGemm() {
  if (exiting.load()) {
    for (auto& [shape, plan] : plans_) detail::abandon(plan.release());
    return;
  }
  plans_.clear();
  static_cast<void>(lt_.destroy(handle_));
}

std::unique_ptr<GemmService> CublasLtGemm::open(CudaBackend& backend) {
  const auto& file = backend.options().gemm_library;
  if (file && file->empty()) return nullptr;
  try {
    return std::make_unique<CublasLtGemm>(backend);
  } catch (const Error& error) {
    if (is_sticky(error.code())) throw;
    backend.log(LogSeverity::info,
                detail::format("{}: no matrix products by cuBLASLt: {}", backend.info().id, error.what()));
    return nullptr;
  }
}

std::unique_ptr<GemmService> open_gemm(CudaBackend& backend) {
  return CublasLtGemm::open(backend);
}

// --- choosing an algorithm --------------------------------------------------------------------------------------------

// What the check of a candidate runs on, in the device's context: memory that is not counted against memory_limit, since
// it is gone when the call ends and must not decide which products a layer takes.
class CublasLtGemm::Bench final : public detail::ProductDevice {
 public:
  // The library's refusal of a product: this candidate's end, not the device's.
  struct Refused {
    std::string why;
  };

  explicit Bench(CublasLtGemm& gemm)
      : gemm_(&gemm), stream_(gemm.backend_.shared_from_this()), current_(*gemm.backend_.context_) {}
  ~Bench() {
    stream_.reset();
    for (const DevicePtr memory : memory_) {
      try {
        if (memory) gemm_->backend_.do_free(memory);
      } catch (...) {  // the device is finished, and its memory with it
      }
    }
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  void set_candidate(const GemmShape& shape, const cublasLtMatmulAlgo_t& candidate) {
    if (problem_ == nullptr) problem_ = std::make_unique<GemmProblem>(gemm_->lt_, shape);
    if (!workspace_) workspace_ = allocate(gemm_workspace_bytes);
    shape_ = shape;
    candidate_ = candidate;
  }

  DevicePtr allocate(std::uint64_t bytes) override {
    memory_.emplace_back();  // the place first: the memory must not be lost for want of it
    return memory_.back() = gemm_->backend_.do_alloc(bytes);
  }
  void upload(DevicePtr to, const void* from, std::uint64_t bytes) override {
    gemm_->backend_.do_copy_h2d(to, from, bytes);
  }
  void download(void* to, DevicePtr from, std::uint64_t bytes) override {
    gemm_->backend_.synchronize(stream_.get());
    gemm_->backend_.do_copy_d2h(to, from, bytes);
  }
  void multiply(const detail::Product& product) override {
    const std::uint64_t native = gemm_->backend_.native_of(stream_.get(), "GemmService::prepare");
    auto& queue = CudaBackend::stream_of(native);
    // What a layer has left there must not matter.
    gemm_->backend_.do_fill(workspace_, 0xFFF7A5C3U, 4, gemm_workspace_bytes / 4, native);
    const cublasStatus_t status = problem_->multiply(gemm_->handle_, candidate_,
                                                     {.a = product.a,
                                                      .b = product.b,
                                                      .bias = product.bias,
                                                      .c = product.c,
                                                      .workspace = workspace_,
                                                      .m = product.m,
                                                      .lda = product.k,
                                                      .ldb = product.k,
                                                      .ldc = product.n,
                                                      .workspace_bytes = gemm_workspace_bytes},
                                                     queue.get());
    if (status == CUBLAS_STATUS_SUCCESS) return;
    if (status == CUBLAS_STATUS_ALLOC_FAILED) gemm_->fail_product(status, shape_);
    gemm_->require_context(product_text(shape_));
    throw Refused{detail::format("{} rows: {} ({})", product.m, status_name(status), status)};
  }

 private:
  CublasLtGemm* gemm_;
  OwnedStream stream_;  // first: it refuses a device that is finished
  Current current_;
  std::vector<DevicePtr> memory_;
  DevicePtr workspace_;
  std::unique_ptr<GemmProblem> problem_;
  GemmShape shape_;
  cublasLtMatmulAlgo_t candidate_{};
};

bool CublasLtGemm::prepare(std::uint32_t n, std::uint32_t k, bool bias) {
  if (n == 0 || k == 0 || n % 8 != 0 || k % 8 != 0) return false;  // rows of 16-byte pieces only
  const GemmShape shape{n, k, bias};
  const std::lock_guard lock(choosing_);
  if (const auto known = find(shape)) return *known != nullptr;
  try {
    std::unique_ptr<Plan> plan = choose(shape);
    const std::unique_lock change(plans_mutex_);
    return plans_.emplace(shape, std::move(plan)).first->second != nullptr;
  } catch (const Error& error) {
    if (is_sticky(error.code())) backend_.set_sticky(error);
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::out_of_host_memory, "GemmService::prepare: the host is out of memory");
  }
}

std::optional<CublasLtGemm::Plan*> CublasLtGemm::find(const GemmShape& shape) {
  const std::shared_lock lock(plans_mutex_);
  const auto found = plans_.find(shape);
  if (found == plans_.end()) return std::nullopt;
  return found->second.get();
}

bool CublasLtGemm::takes_every_m(GemmProblem& problem, const cublasLtMatmulAlgo_t& algorithm) {
  return std::all_of(row_counts.begin(), row_counts.end(), [&](std::uint32_t m) {
    problem.set_rows(m);
    return problem.takes(handle_, algorithm);
  });
}

std::vector<cublasLtMatmulAlgo_t> CublasLtGemm::candidates(const GemmShape& shape, DevicePtr bias) {
  GemmProblem problem(lt_, shape);
  problem.set_bias(bias);  // its alignment counts
  std::vector<cublasLtMatmulAlgo_t> result;
  const auto known = [&](const cublasLtMatmulAlgo_t& algorithm) {
    return std::any_of(result.begin(), result.end(), [&](const cublasLtMatmulAlgo_t& other) {
      return std::memcmp(&algorithm, &other, sizeof algorithm) == 0;
    });
  };
  for (const std::uint32_t m : typical_rows) {
    problem.set_rows(m);
    std::array<cublasLtMatmulHeuristicResult_t, 32> proposals{};
    const int count = problem.ask(handle_, proposals.data(), static_cast<int>(proposals.size()));
    const std::size_t most = result.size() + most_candidates;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) && result.size() < most; ++i) {
      const cublasLtMatmulHeuristicResult_t& proposal = proposals.at(i);
      if (proposal.state != CUBLAS_STATUS_SUCCESS || proposal.workspaceSize != 0 || known(proposal.algo)) continue;
      if (!splits_k(lt_, proposal.algo) && takes_every_m(problem, proposal.algo)) result.push_back(proposal.algo);
    }
  }
  return result;
}

std::unique_ptr<CublasLtGemm::Plan> CublasLtGemm::choose(const GemmShape& shape) {
  Bench bench(*this);
  const std::string text = product_text(shape);
  const auto all = candidates(shape, shape.bias ? bench.allocate(shape.n * sizeof(bf16)) : DevicePtr());
  std::optional<detail::ProductCheck> check;
  for (const cublasLtMatmulAlgo_t& algorithm : all) {
    if (!check) check.emplace(bench, shape.n, shape.k, shape.bias);
    bench.set_candidate({check->columns(), shape.k, shape.bias}, algorithm);
    std::string why;
    try {
      why = check->refusal();
    } catch (const Bench::Refused& refused) {
      why = refused.why;
    }
    if (why.empty()) {
      auto plan = std::make_unique<Plan>();
      plan->algorithm = algorithm;
      plan->name = backend_.parts_->names.keep(text);
      backend_.log(LogSeverity::info, detail::format("{}: {}", text, algorithm_text(lt_, algorithm)));
      return plan;
    }
    backend_.log(LogSeverity::debug, detail::format("{}: {} refused: {}", text, algorithm_text(lt_, algorithm), why));
  }
  backend_.log(LogSeverity::info,
               detail::format("{}: none of {} algorithms without split-K gives a row the same bits for every number of "
                              "rows",
                              text, all.size()));
  return nullptr;
}

void CublasLtGemm::require_context(std::string_view doing) {
  std::size_t free = 0;
  std::size_t total = 0;
  backend_.check(backend_.driver().mem_get_info(&free, &total), doing);
}

void CublasLtGemm::fail_product(cublasStatus_t status, const GemmShape& shape) {
  const std::string text = product_text(shape);
  require_context(text);
  fail_cublas(status, text);
}

// --- products ---------------------------------------------------------------------------------------------------------

// A plan's descriptors for the time of a call.
class CublasLtGemm::Lease {
 public:
  Lease(const CublasLtFunctions& lt, Plan& plan, const GemmShape& shape) : plan_(&plan) {
    {
      const std::lock_guard lock(plan.mutex);
      if (!plan.idle.empty()) {
        problem_ = std::move(plan.idle.back());
        plan.idle.pop_back();
      }
    }
    if (problem_ == nullptr) problem_ = std::make_unique<GemmProblem>(lt, shape);
  }
  ~Lease() {
    try {
      const std::lock_guard lock(plan_->mutex);
      plan_->idle.push_back(std::move(problem_));
    } catch (...) {  // no memory to keep it: the next call makes its own
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] GemmProblem& operator*() const noexcept { return *problem_; }

 private:
  Plan* plan_;
  std::unique_ptr<GemmProblem> problem_;
};

void CublasLtGemm::gemm_bf16(DevicePtr a, DevicePtr b, DevicePtr bias, DevicePtr c, std::uint32_t m, std::uint32_t n,
                             std::uint32_t k, std::uint32_t lda, std::uint32_t ldb, std::uint32_t ldc,
                             DevicePtr workspace, std::uint64_t workspace_size, Stream stream) {
  backend_.submit(stream, "gemm_bf16", [&](std::uint64_t native) {
    const GemmShape shape{n, k, static_cast<bool>(bias)};
    Plan* plan = find(shape).value_or(nullptr);
    if (plan == nullptr) {
      fail(ErrorCode::unsupported, "gemm_bf16: no product of n {} and k {} {} a bias was prepared", n, k,
           shape.bias ? "with" : "without");
    }
    const GemmOperands operands{.a = a,
                                .b = b,
                                .bias = bias,
                                .c = c,
                                .workspace = workspace,
                                .m = m,
                                .lda = lda,
                                .ldb = ldb,
                                .ldc = ldc,
                                .workspace_bytes = workspace_size};
    check_operands(operands, shape);
    if (m == 0) return false;
    const Current current(*backend_.context_);
    auto& queue = CudaBackend::stream_of(native);
    if (queue.capturing()) queue.capture->add(plan->name);
    const Lease problem(lt_, *plan, shape);
    const cublasStatus_t status = (*problem).multiply(handle_, plan->algorithm, operands, queue.get());
    if (status != CUBLAS_STATUS_SUCCESS) [[unlikely]]
      fail_product(status, shape);
    queue.launched.add(plan->name);
    if (backend_.options().synchronous_launches && !queue.capturing() && !backend_.do_is_captured_elsewhere(native))
      static_cast<void>(backend_.wait_for(queue, std::nullopt));
    return true;
  });
}

}  // namespace kdart::cuda
