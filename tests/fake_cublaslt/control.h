// How a test tells the fake cuBLASLt what to do and asks what was done to it: a table of functions that the library exports
// beside cuBLASLt's own. Plain types only, since it is found with dlsym. Any thread may call any of them.
//
// Device addresses are taken for the host's, as the fake CUDA driver's are. A product is computed within the call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kdart::fake_cublaslt {

// How an algorithm sums the terms of an element.
enum class Order : int {
  ascending,
  descending,
  by_rows,         // descending from 65 rows on
  by_place,        // descending in a last, partly filled tile of 128 rows
  without_bias,    // ascending, and wrong where there is a bias
  does_nothing,    // the call succeeds, nothing is written
  fails_few_rows,  // answers CUBLAS_STATUS_NOT_SUPPORTED when it is to multiply fewer than 7 rows
  fails,           // answers CUBLAS_STATUS_EXECUTION_FAILED
};

struct Algorithm {
  int id;
  Order order;
  int split_k;
  unsigned int reduction_scheme;
  std::size_t workspace_bytes;
  std::uint64_t refused_rows;   // cublasLtMatmulAlgoCheck refuses products of so many rows; 0: of none
  int state;                    // the proposal's own
  std::uint64_t proposed_rows;  // proposed for products of so many rows alone; 0: of any
};

struct Call {
  int algorithm;
  std::uint64_t m, n, k;  // as GemmService counts them
  std::int64_t lda, ldb, ldc;
  const void* a;
  const void* b;
  const void* bias;  // null where the epilogue has none
  const void* c;
  const void* workspace;
  std::size_t workspace_bytes;
  const void* stream;
  int type, compute, scale;  // of all operands; -1 when they differ
};

// What a cublasLtMatmulAlgoGetHeuristic was asked with.
struct Question {
  std::uint64_t m, n, k;
  std::uint64_t workspace_bytes;
  unsigned int reduction_mask;
  unsigned int alignments[4];
  const void* bias;
};

struct Control {
  // One algorithm, number 1, ascending; nothing counted, no failure.
  void (*reset)();
  // What cuBLASLt proposes for any shape, in this order.
  void (*propose)(const Algorithm* algorithms, std::size_t count);
  // The nth call of `symbol` from now answers `status` and does nothing.
  void (*fail)(const char* symbol, std::uint64_t nth, int status);
  std::uint64_t (*calls)(const char* symbol);  // since reset
  std::uint64_t (*products)();
  bool (*product)(std::uint64_t index, Call* call);
  bool (*question)(std::uint64_t index, Question* question);
  int (*live)();        // handles, descriptors, layouts, preferences
  int (*violations)();  // uses of what is not alive, attributes that do not exist or have another size
};

// The exported symbol of the table.
inline constexpr const char* control_symbol = "kdart_fake_cublaslt";

}  // namespace kdart::fake_cublaslt
