// The GEMM service of the CUDA backend over a fake cuBLASLt, whose algorithms keep the promise or break it.
#include <dlfcn.h>
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "backends/cuda/cublaslt.h"
#include "backends/cuda/gemm_problem.h"
#include "kdart/cuda.h"
#include "kdart/gemm_service.h"
#include "kdart/owned.h"
#include "kdart/registry.h"
#include "tests/fake_cublaslt/control.h"
#include "tests/fake_cublaslt_path.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/fake_cuda.h"
#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using fake_cublaslt::Algorithm;
using fake_cublaslt::Call;
using fake_cublaslt::Order;

const fake_cublaslt::Control& lt() {
  static const auto* control = [] {
    void* library = dlopen(fake_cublaslt_path, RTLD_NOW | RTLD_LOCAL);
    return library == nullptr
               ? nullptr
               : static_cast<const fake_cublaslt::Control*>(dlsym(library, fake_cublaslt::control_symbol));
  }();
  REQUIRE(control != nullptr);
  return *control;
}

constexpr Algorithm good(int id) {
  return {id, Order::ascending, 1, 0, 0, 0, 0, 0};
}
Algorithm of_order(int id, Order order) {
  Algorithm algorithm = good(id);
  algorithm.order = order;
  return algorithm;
}

void propose(const std::vector<Algorithm>& algorithms) {
  lt().propose(algorithms.data(), algorithms.size());
}

// A fake device with the fake library, and what it logs. Checks at its end that nothing is left of either.
struct Bench {
  explicit Bench(OpenOptions options = {}, int create_answer = 0) {
    lt().reset();
    if (create_answer != 0) lt().fail("cublasLtCreate", 1, create_answer);
    options.driver_path = FakeCuda::path(FakeCuda::Driver::full);
    if (!options.gemm_library) options.gemm_library = fake_cublaslt_path;
    options.log = [this](LogSeverity severity, std::string_view text) {
      log += std::to_string(static_cast<int>(severity)) + " " + std::string(text) + "\n";
    };
    device = driver.open(options);
    service = device->service<GemmService>();
  }
  ~Bench() {
    device.reset();
    CHECK(lt().live() == 0);
    CHECK(lt().violations() == 0);
    KDART_CHECK_CLEAN(driver);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  [[nodiscard]] bool logged(std::string_view text) const { return log.find(text) != std::string::npos; }

  FakeCuda driver;
  std::string log;
  std::shared_ptr<GpuBackend> device;
  GemmService* service = nullptr;
};

std::vector<Call> products() {
  std::vector<Call> result(lt().products());
  for (std::size_t i = 0; i < result.size(); ++i) REQUIRE(lt().product(i, &result[i]));
  return result;
}

// Operands on the device, rows `ld` apart.
struct Operands {
  Operands(const std::shared_ptr<GpuBackend>& device, std::uint32_t rows, std::uint32_t columns, std::uint32_t depth,
           bool with_bias, std::uint32_t padding = 0)
      : gpu(device), m(rows), n(columns), k(depth), lda(k + padding), ldb(k + 2 * padding), ldc(n + 3 * padding) {
    Random random(m * 131 + n);
    host_a = random.bf16_normals(std::size_t{m} * lda, 1.0);
    host_b = random.bf16_normals(std::size_t{n} * ldb, 1.0);
    if (with_bias) host_bias = random.bf16_normals(n, 1.0);
    a = upload(device, host_a);
    b = upload(device, host_b);
    if (with_bias) bias = upload(device, host_bias);
    c = Buffer(device, std::uint64_t{m} * ldc * sizeof(bf16));
    workspace = Buffer(device, cuda::gemm_workspace_bytes);
  }
  static Buffer upload(const std::shared_ptr<GpuBackend>& device, const std::vector<bf16>& values) {
    Buffer buffer(device, values.size() * sizeof(bf16));
    device->copy_h2d(buffer.get(), values.data(), buffer.bytes());
    return buffer;
  }
  void multiply(GemmService& service, Stream stream) const {
    service.gemm_bf16(a.get(), b.get(), bias ? bias.get() : DevicePtr(), c.get(), m, n, k, lda, ldb, ldc,
                      workspace.get(), workspace.bytes(), stream);
  }
  // Whether c is what ascending sums give, and nothing else was written.
  [[nodiscard]] bool right() const {
    std::vector<bf16> found(std::size_t{m} * ldc);
    gpu->copy_d2h(found.data(), c.get(), c.bytes());
    for (std::size_t row = 0; row < m; ++row) {
      for (std::size_t column = 0; column < n; ++column) {
        float sum = 0.0F;
        for (std::size_t i = 0; i < k; ++i) sum += to_float(host_a[row * lda + i]) * to_float(host_b[column * ldb + i]);
        if (!host_bias.empty()) sum += to_float(host_bias[column]);
        if (found[row * ldc + column] != to_bf16(sum)) return false;
      }
    }
    return true;
  }

  std::shared_ptr<GpuBackend> gpu;
  std::uint32_t m, n, k, lda, ldb, ldc;
  std::vector<bf16> host_a, host_b, host_bias;
  Buffer a, b, bias, c, workspace;
};

}  // namespace

TEST_CASE("cuda: cuBLASLt is asked for what every call has", "[cuda][gemm][no-device]") {
  Bench bench;
  REQUIRE(bench.service != nullptr);
  CHECK(bench.logged("cuBLASLt 130002"));
  CHECK(bench.logged(fake_cublaslt_path));
  std::uint64_t index = 0;
  for (const bool bias : {false, true}) {
    REQUIRE(bench.service->prepare(24, 64, bias));
    for (const std::uint64_t m : {4096U, 512U, 64U}) {
      fake_cublaslt::Question question{};
      REQUIRE(lt().question(index++, &question));
      CHECK(question.m == m);
      CHECK(question.n == 24);
      CHECK(question.k == 64);
      CHECK(question.workspace_bytes == 0);
      CHECK(question.reduction_mask == 0);
      for (const unsigned int alignment : question.alignments) CHECK(alignment == 16);
      CHECK((question.bias != nullptr) == bias);
    }
  }
  CHECK(bench.service->workspace_bytes(4096, 24, 64) == cuda::gemm_workspace_bytes);
  CHECK(cuda::gemm_workspace_bytes <= GemmService::max_workspace_bytes);
  for (const Call& call : products()) {
    CHECK(call.compute == cuda::CUBLAS_COMPUTE_32F);
    CHECK(call.scale == cuda::CUDA_R_32F);
    CHECK(call.type == cuda::CUDA_R_16BF);
    CHECK(call.workspace != nullptr);
    CHECK(call.workspace_bytes == cuda::gemm_workspace_bytes);
  }
}

TEST_CASE("cuda: a product is put to cuBLASLt as it is meant", "[cuda][gemm][no-device]") {
  Bench bench;
  const OwnedStream stream(bench.device);
  void* native = bench.device->service<CudaInterop>()->native_stream(stream.get());
  for (const bool bias : {false, true}) {
    REQUIRE(bench.service->prepare(24, 64, bias));
    for (const std::uint32_t m : {1U, 5U, 130U, 2U}) {
      for (const std::uint32_t padding : {0U, 8U}) {
        INFO(m << " rows, padding " << padding << ", bias " << bias);
        const Operands x(bench.device, m, 24, 64, bias, padding);
        const std::uint64_t before = lt().products();
        x.multiply(*bench.service, stream.get());
        bench.device->synchronize(stream.get());
        CHECK(x.right());
        REQUIRE(lt().products() == before + 1);
        const Call call = products().back();
        CHECK(call.m == m);
        CHECK(call.lda == x.lda);
        CHECK(call.ldb == x.ldb);
        CHECK(call.ldc == x.ldc);
        CHECK(call.stream == native);
        CHECK((call.bias != nullptr) == bias);
        CHECK(reinterpret_cast<std::uintptr_t>(call.workspace) == x.workspace.get().address());
      }
    }
  }
  // No rows: nothing to do.
  const Operands none(bench.device, 8, 24, 64, false);
  const std::uint64_t before = lt().products();
  bench.service->gemm_bf16(none.a.get(), none.b.get(), {}, none.c.get(), 0, 24, 64, 64, 64, 24, {}, 0, stream.get());
  CHECK(lt().products() == before);
}

TEST_CASE("cuda: an algorithm that breaks the promise gives way to the next", "[cuda][gemm][no-device]") {
  std::vector<Algorithm> bad;
  for (const Order order :
       {Order::by_rows, Order::by_place, Order::without_bias, Order::does_nothing, Order::fails_few_rows, Order::fails})
    bad.push_back(of_order(7, order));
  for (const int parts : {2, 8, -1}) {
    bad.push_back(good(7));
    bad.back().split_k = parts;
  }
  bad.push_back(good(7));
  bad.back().reduction_scheme = 1;
  bad.push_back(good(7));
  bad.back().workspace_bytes = cuda::gemm_workspace_bytes + 1;
  bad.push_back(good(7));
  bad.back().state = cuda::CUBLAS_STATUS_NOT_SUPPORTED;
  for (const std::uint64_t rows : {1U, 2U, 7U, 16U, 17U, 64U, 100U, 128U, 129U, 1000U, 4096U}) {
    bad.push_back(good(7));
    bad.back().refused_rows = rows;
  }
  for (std::size_t i = 0; i < bad.size(); ++i) {
    INFO("bad algorithm " << i);
    Bench bench;
    propose({bad[i], good(8), good(9)});
    REQUIRE(bench.service->prepare(16, 64, true));
    CHECK(bench.logged("algorithm 8"));
    const OwnedStream stream(bench.device);
    const Operands x(bench.device, 3, 16, 64, true);
    x.multiply(*bench.service, stream.get());
    CHECK(products().back().algorithm == 8);
    // Alone it leaves none.
    propose({bad[i]});
    CHECK_FALSE(bench.service->prepare(16, 128, true));
    CHECK_FALSE(bench.service->prepare(16, 128, true));
    CHECK(bench.logged("cuBLASLt product 16 x 128 with a bias: none"));
    CHECK(x.right());
  }
}

TEST_CASE("cuda: algorithms for a prompt come before those for few rows", "[cuda][gemm][no-device]") {
  const auto taken = [](const std::vector<Algorithm>& algorithms) {
    const Bench bench;
    propose(algorithms);
    const bool prepared = bench.service->prepare(16, 64, false);
    return prepared ? products().back().algorithm : 0;
  };
  const auto for_rows = [](int id, std::uint64_t rows, Order order = Order::ascending) {
    Algorithm algorithm = of_order(id, order);
    algorithm.proposed_rows = rows;
    return algorithm;
  };
  CHECK(taken({for_rows(7, 64), for_rows(8, 4096)}) == 8);
  CHECK(taken({for_rows(7, 64), for_rows(8, 512), for_rows(9, 4096, Order::by_rows)}) == 8);
  CHECK(taken({for_rows(7, 64), for_rows(8, 512, Order::by_place), for_rows(9, 4096, Order::by_rows)}) == 7);
  CHECK(taken({for_rows(7, 1000)}) == 0);
  // Of many that fail only the first eight are tried.
  std::vector<Algorithm> many(8, for_rows(7, 4096, Order::by_rows));
  many.push_back(for_rows(8, 4096));
  CHECK(taken(many) == 0);
  many.front().order = Order::ascending;
  CHECK(taken(many) == 7);
}

TEST_CASE("cuda: without any proposal there is no product", "[cuda][gemm][no-device]") {
  Bench bench;
  propose({});
  CHECK_FALSE(bench.service->prepare(16, 64, false));
}

TEST_CASE("cuda: a shape is prepared once", "[cuda][gemm][no-device]") {
  Bench bench;
  REQUIRE(bench.service->prepare(16, 64, false));
  const std::uint64_t questions = lt().calls("cublasLtMatmulAlgoGetHeuristic");
  const std::uint64_t done = lt().products();
  CHECK(bench.service->prepare(16, 64, false));
  CHECK(lt().calls("cublasLtMatmulAlgoGetHeuristic") == questions);
  CHECK(lt().products() == done);
  CHECK(bench.service->prepare(16, 64, true));  // another shape
  CHECK(lt().calls("cublasLtMatmulAlgoGetHeuristic") == 2 * questions);
  // And descriptors are made once for calls that follow each other.
  const OwnedStream stream(bench.device);
  const Operands x(bench.device, 4, 16, 64, false);
  x.multiply(*bench.service, stream.get());
  const std::uint64_t made = lt().calls("cublasLtMatmulDescCreate");
  for (int i = 0; i < 10; ++i) x.multiply(*bench.service, stream.get());
  CHECK(lt().calls("cublasLtMatmulDescCreate") == made);
}

TEST_CASE("cuda: shapes of other than whole 16-byte pieces are not asked for", "[cuda][gemm][no-device]") {
  Bench bench;
  for (const auto& [n, k] : {std::pair(12U, 64U), std::pair(64U, 12U), std::pair(0U, 64U), std::pair(64U, 0U)})
    CHECK_FALSE(bench.service->prepare(n, k, false));
  CHECK(lt().calls("cublasLtMatmulAlgoGetHeuristic") == 0);
}

TEST_CASE("cuda: where cuBLASLt cannot be opened there is no service", "[cuda][gemm][no-device]") {
  const auto without = [](const std::string& path, std::initializer_list<std::string_view> words) {
    OpenOptions options;
    options.gemm_library = path;
    const Bench bench(options);
    INFO(bench.log);
    CHECK(bench.service == nullptr);
    CHECK(bench.device->service<GemmService>() == nullptr);
    for (const std::string_view word : words) CHECK(bench.logged(word));
    CHECK(bench.logged("1 ") == (words.size() != 0));  // LogSeverity::info
  };
  without("/no/such/libcublasLt.so", {"cuBLASLt could not be opened", "/no/such/libcublasLt.so"});
  without(FakeCuda::path(FakeCuda::Driver::full), {"cuBLASLt could not be opened", "without cublasLtCreate"});
  without("", {});
  static_assert(static_cast<int>(LogSeverity::info) == 1);

  const Bench bench({}, cuda::CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(bench.service == nullptr);
  CHECK(bench.logged("CUBLAS_STATUS_NOT_INITIALIZED (1)"));
}

TEST_CASE("cuda: names are sought no newer than the driver", "[cuda][gemm][no-device]") {
  // No cuBLASLt of the machine's must get in here: only the words of a failure are looked at.
  const auto words = [](int version) {
    OpenOptions options;
    return error_of([&] {
             options.gemm_library = "/no/such/" + std::to_string(version);
             const cuda::CublasLtLibrary library(options, version);
           })
        .code();
  };
  CHECK(words(13000) == ErrorCode::driver_missing);
  CHECK(cuda::CublasLtLibrary::names_for(13020) ==
        std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"});
  CHECK(cuda::CublasLtLibrary::names_for(12040) ==
        std::vector<std::string>{"libcublasLt.so.12", "libcublasLt.so.11", "libcublasLt.so"});
  CHECK(cuda::CublasLtLibrary::names_for(11040) == std::vector<std::string>{"libcublasLt.so.11", "libcublasLt.so"});
}

TEST_CASE("cuda: cuBLASLt's answers keep their name and number", "[cuda][gemm][no-device]") {
  using namespace cuda;
  CHECK(code_of_status(CUBLAS_STATUS_ALLOC_FAILED) == ErrorCode::out_of_device_memory);
  CHECK(code_of_status(CUBLAS_STATUS_NOT_SUPPORTED) == ErrorCode::unsupported);
  CHECK(code_of_status(CUBLAS_STATUS_ARCH_MISMATCH) == ErrorCode::unsupported);
  for (const cublasStatus_t status : {1, 7, 11, 13, 14, 16, 99})
    CHECK(code_of_status(status) == ErrorCode::driver_error);
  CHECK(status_name(13) == "CUBLAS_STATUS_EXECUTION_FAILED");
  const Error unknown = error_of([] { check_cublas(99, "multiplying"); });
  CHECK(unknown.native_code() == 99);
  CHECK(unknown.native_text() == "cublasStatus_t 99");
  CHECK(std::string(unknown.what()) == "multiplying: cuBLASLt answered cublasStatus_t 99 (99)");
}

TEST_CASE("cuda: any call of cuBLASLt may fail while a shape is prepared", "[cuda][gemm][no-device]") {
  std::vector<std::pair<const char*, std::uint64_t>> symbols;
  {
    const Bench model;
    REQUIRE(model.service->prepare(16, 64, true));
    for (const char* name :
         {"cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulDescCreate",
          "cublasLtMatmulDescSetAttribute", "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute",
          "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmulAlgoCheck", "cublasLtMatmul"})
      symbols.emplace_back(name, lt().calls(name));
  }
  for (const auto& [name, calls] : symbols) {
    REQUIRE(calls > 0);
    for (std::uint64_t nth = 1; nth <= calls; ++nth) {
      INFO(name << ", call " << nth << " of " << calls);
      const Bench bench;
      lt().fail(name, nth, cuda::CUBLAS_STATUS_ALLOC_FAILED);
      const Error error = error_of([&] { static_cast<void>(bench.service->prepare(16, 64, true)); });
      CHECK(error.code() == ErrorCode::out_of_device_memory);
      CHECK(error.native_code() == cuda::CUBLAS_STATUS_ALLOC_FAILED);
      CHECK(bench.device->memory_info().live == 0);
      CHECK(bench.service->prepare(16, 64, true));  // nothing was decided
    }
  }
}

TEST_CASE("cuda: an algorithm that does not say how it sums is not taken", "[cuda][gemm][no-device]") {
  for (const std::uint64_t nth : {1U, 2U}) {  // split-K, reduction scheme
    const Bench bench;
    propose({good(7), good(8)});
    lt().fail("cublasLtMatmulAlgoConfigGetAttribute", nth, cuda::CUBLAS_STATUS_INVALID_VALUE);
    CHECK(bench.service->prepare(16, 64, false));
    CHECK(bench.logged("algorithm 8"));
  }
}

TEST_CASE("cuda: any call of the driver may fail while a shape is prepared", "[cuda][gemm][no-device]") {
  struct Symbol {
    const char* name;
    std::uint64_t calls;  // the first ones, at least as many as there are
  };
  for (const auto& [symbol, calls] : {Symbol{"cuStreamCreate", 1}, Symbol{"cuMemAllocFromPoolAsync", 5},
                                      Symbol{"cuMemcpyHtoDAsync_v2", 5}, Symbol{"cuMemcpyDtoHAsync_v2", 5}}) {
    for (std::uint64_t nth = 1; nth <= calls; ++nth) {
      INFO(symbol << ", call " << nth);
      Bench bench;
      bench.driver->fail(symbol, nth, 999, false);
      const Error error = error_of([&] { static_cast<void>(bench.service->prepare(16, 64, true)); });
      CHECK(error.code() == ErrorCode::driver_error);
      CHECK(error.native_code() == 999);
      bench.driver->fail_no_more();
      CHECK(bench.service->prepare(16, 64, true));
      const OwnedStream stream(bench.device);
      const Operands x(bench.device, 5, 16, 64, true);
      x.multiply(*bench.service, stream.get());
      CHECK(x.right());
    }
  }
}

TEST_CASE("cuda: a fault while a shape is prepared finishes the device", "[cuda][gemm][no-device]") {
  for (std::uint64_t nth = 1; nth <= 9; ++nth) {
    INFO("wait " << nth);
    const Bench bench;
    bench.driver->fail("cuStreamSynchronize", nth, cuda::CUDA_ERROR_ILLEGAL_ADDRESS, true);
    for (int i = 0; i < 2; ++i) {
      expect_error(ErrorCode::device_fault, {"CUDA_ERROR_ILLEGAL_ADDRESS"},
                   [&] { static_cast<void>(bench.service->prepare(16, 64, true)); });
    }
    expect_error(ErrorCode::device_fault, {"CUDA_ERROR_ILLEGAL_ADDRESS"},
                 [&] { static_cast<void>(bench.device->alloc(16)); });
  }
}

TEST_CASE("cuda: preparing takes no memory that is counted and keeps none", "[cuda][gemm][no-device]") {
  OpenOptions options;
  options.memory_limit = 1000;
  Bench bench(options);
  CHECK(bench.service->prepare(64, 512, true));
  CHECK(bench.device->memory_info().live == 0);
  CHECK(Buffer(bench.device, 1000).get());
}

TEST_CASE("cuda: a call that cuBLASLt does not take throws what it answered", "[cuda][gemm][no-device]") {
  Bench bench;
  REQUIRE(bench.service->prepare(16, 64, false));
  const OwnedStream stream(bench.device);
  const Operands x(bench.device, 5, 16, 64, false);
  const auto failing = [&](int status, ErrorCode code, std::string_view name) {
    lt().fail("cublasLtMatmul", 1, status);
    const std::string message = expect_error(code, {"cuBLASLt product 16 x 64", name, std::to_string(status)},
                                             [&] { x.multiply(*bench.service, stream.get()); });
    x.multiply(*bench.service, stream.get());
    CHECK(x.right());
  };
  failing(cuda::CUBLAS_STATUS_ALLOC_FAILED, ErrorCode::out_of_device_memory, "CUBLAS_STATUS_ALLOC_FAILED");
  failing(cuda::CUBLAS_STATUS_NOT_SUPPORTED, ErrorCode::unsupported, "CUBLAS_STATUS_NOT_SUPPORTED");
  failing(cuda::CUBLAS_STATUS_ARCH_MISMATCH, ErrorCode::unsupported, "CUBLAS_STATUS_ARCH_MISMATCH");
  failing(cuda::CUBLAS_STATUS_EXECUTION_FAILED, ErrorCode::driver_error, "CUBLAS_STATUS_EXECUTION_FAILED");
  failing(77, ErrorCode::driver_error, "cublasStatus_t 77");
  // A failing description is not kept half made.
  for (const char* symbol : {"cublasLtMatrixLayoutSetAttribute", "cublasLtMatmulDescSetAttribute"}) {
    REQUIRE(bench.service->prepare(16, 64, true));
    const Operands before(bench.device, 8, 16, 64, true);  // leaves descriptors that the next call has to change
    before.multiply(*bench.service, stream.get());
    const Operands other(bench.device, 9, 16, 64, true, 8);
    lt().fail(symbol, 1, cuda::CUBLAS_STATUS_INTERNAL_ERROR);
    expect_error(ErrorCode::driver_error, {"CUBLAS_STATUS_INTERNAL_ERROR"},
                 [&] { other.multiply(*bench.service, stream.get()); });
    other.multiply(*bench.service, stream.get());
    CHECK(other.right());
  }
}

TEST_CASE("cuda: a fault behind a refused call is told as the driver has it", "[cuda][gemm][no-device]") {
  Bench bench;
  REQUIRE(bench.service->prepare(16, 64, false));
  const OwnedStream stream(bench.device);
  const Operands x(bench.device, 5, 16, 64, false);
  x.multiply(*bench.service, stream.get());
  lt().fail("cublasLtMatmul", 1, cuda::CUBLAS_STATUS_EXECUTION_FAILED);
  bench.driver->fail("cuMemGetInfo_v2", 1, cuda::CUDA_ERROR_ILLEGAL_ADDRESS, true);
  expect_error(ErrorCode::device_fault, {"cuBLASLt product 16 x 64", "CUDA_ERROR_ILLEGAL_ADDRESS"},
               [&] { x.multiply(*bench.service, stream.get()); });
  expect_error(ErrorCode::device_fault, {"CUDA_ERROR_ILLEGAL_ADDRESS"}, [&] { bench.device->flush(stream.get()); });
  expect_error(ErrorCode::device_fault, {"CUDA_ERROR_ILLEGAL_ADDRESS"},
               [&] { static_cast<void>(bench.service->prepare(16, 128, false)); });
}

TEST_CASE("cuda: a fault in a product is told with its name", "[cuda][gemm][no-device]") {
  Bench bench;
  REQUIRE(bench.service->prepare(16, 64, true));
  const OwnedStream stream(bench.device);
  const Operands x(bench.device, 5, 16, 64, true);
  x.multiply(*bench.service, stream.get());
  bench.driver->fail("cuStreamSynchronize", 1, cuda::CUDA_ERROR_LAUNCH_FAILED, true);
  expect_error(ErrorCode::device_fault, {"cuBLASLt product 16 x 64 with a bias"},
               [&] { bench.device->synchronize(stream.get()); });
}

TEST_CASE("cuda: a product that breaks a precondition is refused and not made", "[cuda][gemm][no-device][refusal]") {
  Bench bench;
  REQUIRE(bench.service->prepare(16, 64, false));
  REQUIRE(bench.service->prepare(16, 64, true));
  const OwnedStream stream(bench.device);
  const Operands good_one(bench.device, 5, 16, 64, true);
  struct Arguments {
    DevicePtr a, b, bias, c, workspace;
    std::uint32_t m = 5, n = 16, k = 64, lda = 64, ldb = 64, ldc = 16;
    std::uint64_t workspace_bytes = cuda::gemm_workspace_bytes;
    Stream stream;
  };
  const Arguments good_arguments{.a = good_one.a.get(),
                                 .b = good_one.b.get(),
                                 .bias = good_one.bias.get(),
                                 .c = good_one.c.get(),
                                 .workspace = good_one.workspace.get(),
                                 .stream = stream.get()};
  const std::uint64_t before = lt().products();
  const auto refused = [&](ErrorCode code, std::initializer_list<std::string_view> words, const auto& change) {
    Arguments x = good_arguments;
    change(x);
    expect_error(code, words, [&] {
      bench.service->gemm_bf16(x.a, x.b, x.bias, x.c, x.m, x.n, x.k, x.lda, x.ldb, x.ldc, x.workspace,
                               x.workspace_bytes, x.stream);
    });
  };
  constexpr ErrorCode invalid = ErrorCode::invalid_argument;
  refused(ErrorCode::unsupported, {"n 24", "k 64", "with a bias", "prepared"}, [](Arguments& x) { x.n = 24; });
  refused(ErrorCode::unsupported, {"n 16", "k 72", "without a bias"}, [](Arguments& x) { x.k = 72, x.bias = {}; });
  refused(invalid, {"m", "2147483648", "2147483647"}, [](Arguments& x) { x.m = 1U << 31; });
  refused(invalid, {"lda", "56", "k", "64"}, [](Arguments& x) { x.lda = 56; });
  refused(invalid, {"lda", "68", "multiple of 8"}, [](Arguments& x) { x.lda = 68; });
  refused(invalid, {"ldb", "63"}, [](Arguments& x) { x.ldb = 63; });
  refused(invalid, {"ldc", "15", "n", "16"}, [](Arguments& x) { x.ldc = 15; });
  refused(invalid, {"a is null"}, [](Arguments& x) { x.a = {}; });
  refused(invalid, {"b is null"}, [](Arguments& x) { x.b = {}; });
  refused(invalid, {"workspace is null"}, [](Arguments& x) { x.workspace = {}; });
  refused(invalid, {"workspace has 255 bytes", "256"}, [](Arguments& x) { x.workspace_bytes = 255; });
  refused(invalid, {"c is null"}, [](Arguments& x) { x.c = {}; });
  for (DevicePtr Arguments::* operand :
       {&Arguments::a, &Arguments::b, &Arguments::bias, &Arguments::c, &Arguments::workspace})
    refused(invalid, {"multiple of 16"}, [&](Arguments& x) { x.*operand = (x.*operand).offset(8); });
  refused(invalid, {"a (640 bytes", "c (160 bytes", "overlap"}, [](Arguments& x) { x.c = x.a.offset(624); });
  refused(invalid, {"b (2048 bytes", "overlap"}, [](Arguments& x) { x.b = x.c.offset(144); });
  refused(invalid, {"bias (32 bytes", "overlap"}, [](Arguments& x) { x.bias = x.c; });
  refused(ErrorCode::invalid_handle, {"gemm_bf16"}, [](Arguments& x) { x.stream = Stream(); });
  CHECK(lt().products() == before);
  // Neighbours are no overlap.
  Arguments x = good_arguments;
  const Buffer block(bench.device, 640 + 160);
  x.a = block.get(), x.c = block.get().offset(640);
  bench.service->gemm_bf16(x.a, x.b, x.bias, x.c, x.m, x.n, x.k, x.lda, x.ldb, x.ldc, x.workspace, x.workspace_bytes,
                           x.stream);
  CHECK(lt().products() == before + 1);
}

TEST_CASE("cuda: a capture holds a product", "[cuda][gemm][no-device][graph]") {
  Bench bench;
  REQUIRE(bench.service->prepare(16, 64, false));
  const OwnedStream stream(bench.device);
  const Operands x(bench.device, 5, 16, 64, false);
  bench.device->begin_capture(stream.get());
  x.multiply(*bench.service, stream.get());
  const OwnedGraph graph(bench.device, bench.device->end_capture(stream.get()));
  CHECK(products().back().m == 5);
  bench.device->launch_graph(graph.get(), stream.get());
  bench.driver->fail("cuStreamSynchronize", 1, cuda::CUDA_ERROR_LAUNCH_FAILED, true);
  expect_error(ErrorCode::device_fault, {"cuBLASLt product 16 x 64"}, [&] { bench.device->synchronize(stream.get()); });
}

TEST_CASE("cuda: synchronous launches wait for each product but not in a capture", "[cuda][gemm][no-device]") {
  OpenOptions options;
  options.synchronous_launches = true;
  Bench bench(options);
  REQUIRE(bench.service->prepare(16, 64, false));
  const OwnedStream stream(bench.device);
  const Operands x(bench.device, 5, 16, 64, false);
  const std::uint64_t waits = bench.driver->calls("cuStreamSynchronize");
  x.multiply(*bench.service, stream.get());
  CHECK(bench.driver->calls("cuStreamSynchronize") == waits + 1);
  bench.device->begin_capture(stream.get());
  x.multiply(*bench.service, stream.get());
  const OwnedGraph graph(bench.device, bench.device->end_capture(stream.get()));
  CHECK(bench.driver->calls("cuStreamSynchronize") == waits + 1);
}

TEST_CASE("cuda: synchronous launches do not wait for a stream that its owner captures", "[cuda][gemm][no-device]") {
  OpenOptions options;
  options.synchronous_launches = true;
  Bench bench(options);
  REQUIRE(bench.service->prepare(16, 64, false));
  const Operands x(bench.device, 5, 16, 64, false);
  auto* interop = bench.device->service<CudaInterop>();
  const cuda::Functions& cu = bench.driver.cu();
  REQUIRE(cu.ctx_push_current(static_cast<cuda::CUcontext>(interop->native_context())) == 0);
  cuda::CUstream native = nullptr;
  REQUIRE(cu.stream_create(&native, cuda::CU_STREAM_NON_BLOCKING) == 0);
  const Stream adopted = interop->adopt_stream(native);
  const std::uint64_t waits = bench.driver->calls("cuStreamSynchronize");
  REQUIRE(cu.stream_begin_capture(native, cuda::CU_STREAM_CAPTURE_MODE_RELAXED) == 0);
  x.multiply(*bench.service, adopted);
  CHECK(bench.driver->calls("cuStreamSynchronize") == waits);
  cuda::CUgraph graph = nullptr;
  CHECK(cu.stream_end_capture(native, &graph) == 0);
  CHECK(cu.graph_destroy(graph) == 0);
  x.multiply(*bench.service, adopted);
  CHECK(bench.driver->calls("cuStreamSynchronize") == waits + 1);
  bench.device->destroy_stream(adopted);
  CHECK(cu.stream_destroy(native) == 0);
  cuda::CUcontext popped = nullptr;
  CHECK(cu.ctx_pop_current(&popped) == 0);
}

TEST_CASE("cuda: threads share the service", "[cuda][gemm][no-device]") {
  Bench bench;
  constexpr int count = 4;
  std::array<bool, count> right{};
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      const auto k = static_cast<std::uint32_t>(64 + 8 * (t % 2));  // two shapes, each prepared by two threads at once
      bool all = bench.service->prepare(16, k, false);
      const OwnedStream stream(bench.device);
      for (std::uint32_t m = 1; m < 20; ++m) {
        const Operands x(bench.device, m, 16, k, false, 8 * (m % 2));
        x.multiply(*bench.service, stream.get());
        bench.device->synchronize(stream.get());
        all = all && x.right();
      }
      right[static_cast<std::size_t>(t)] = all;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const bool all : right) CHECK(all);
  CHECK(lt().calls("cublasLtMatmulAlgoGetHeuristic") == 6);  // two shapes
}

}  // namespace kdart::test
