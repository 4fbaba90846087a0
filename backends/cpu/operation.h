// What a stream queues: one value per asynchronous call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "kdart/launch.h"
#include "kdart/types.h"

namespace kdart::cpu {

class CpuEvent;
class CpuKernel;
class CpuModule;
class CpuStream;
struct CpuGraph;

// A place in a stream's order: everything submitted up to `sequence`. No stream: a place that has always been passed.
struct Position {
  std::shared_ptr<CpuStream> stream;
  std::uint64_t sequence = 0;
};

// A launch with its argument block copied out of the caller's record. The kernel stays loaded: unloading waits for
// queued launches, and a graph holds the modules of its own.
struct LaunchOperation {
  const CpuKernel* kernel = nullptr;
  Dim3 grid, block;
  std::uint32_t shared_bytes = 0;
  alignas(16) std::array<std::byte, max_argument_bytes> arguments{};
};

struct CopyOperation {
  void* dst;
  const void* src;
  std::uint64_t bytes;
};

// A copy whose source the caller may change already: the bytes travel with the operation.
struct StagedCopyOperation {
  void* dst;
  std::unique_ptr<std::byte[]> staged;
  std::uint64_t bytes;
};

struct Copy2dOperation {
  std::byte* dst;
  std::uint64_t dst_pitch;
  const std::byte* src;
  std::uint64_t src_pitch;
  std::uint64_t width;
  std::uint64_t height;
};

struct FillOperation {
  void* dst;
  std::uint32_t value;
  std::uint32_t width;
  std::uint64_t count;
};

struct RecordOperation {
  std::shared_ptr<CpuEvent> event;
  std::uint64_t generation;
};

struct WaitOperation {
  Position position;
};

struct FreeOperation {
  void* memory;
};

struct GraphOperation {
  std::shared_ptr<const CpuGraph> graph;
};

using Operation = std::variant<std::monostate, LaunchOperation, CopyOperation, StagedCopyOperation, Copy2dOperation,
                               FillOperation, RecordOperation, WaitOperation, FreeOperation, GraphOperation>;

// A captured graph. Capture order is a valid order of its dependencies, whatever streams took part, so replaying it is
// running it from front to back.
struct CpuGraph {
  std::vector<Operation> operations;
  std::vector<std::shared_ptr<CpuModule>> modules;  // of the launches, each once
};

}  // namespace kdart::cpu
