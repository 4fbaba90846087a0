// A program that uses CUDA itself, linked with -lcuda, and kdart beside it: each must leave the other's context, streams and
// memory alone. The driver's entry points are declared by hand, so no toolkit is needed.
#include <kdart/cuda.h>
#include <kdart/owned.h>
#include <kdart/registry.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

extern "C" {
int cuInit(unsigned flags);
int cuDeviceGet(int* device, int ordinal);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuCtxGetCurrent(void** context);
int cuCtxPushCurrent_v2(void* context);
int cuCtxPopCurrent_v2(void** context);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamDestroy_v2(void* stream);
int cuStreamSynchronize(void* stream);
int cuMemAlloc_v2(unsigned long long* memory, std::size_t bytes);
int cuMemFree_v2(unsigned long long memory);
int cuMemsetD32Async(unsigned long long memory, unsigned value, std::size_t count, void* stream);
int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, std::size_t bytes, void* stream);
int cuMemcpyDtoHAsync_v2(void* to, unsigned long long from, std::size_t bytes, void* stream);
}

namespace {

constexpr std::size_t words = 4096;
constexpr std::size_t bytes = words * sizeof(std::uint32_t);

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

void call(int result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "failed: %s answered %d\n", what, result);
  std::exit(1);
}

// The program's own CUDA, by direct calls: the device's primary context, made current, with a stream and memory.
class OwnCuda {
 public:
  OwnCuda() {
    call(cuInit(0), "cuInit");
    call(cuDeviceGet(&device_, 0), "cuDeviceGet");
    call(cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
    call(cuCtxPushCurrent_v2(context_), "cuCtxPushCurrent");
    call(cuStreamCreate(&stream_, 1), "cuStreamCreate");
    call(cuMemAlloc_v2(&memory_, bytes), "cuMemAlloc");
  }
  ~OwnCuda() {
    call(cuMemFree_v2(memory_), "cuMemFree");
    call(cuStreamDestroy_v2(stream_), "cuStreamDestroy");
    void* popped = nullptr;
    call(cuCtxPopCurrent_v2(&popped), "cuCtxPopCurrent");
    require(popped == context_, "popping the program's own context");
    call(cuDevicePrimaryCtxRelease_v2(device_), "cuDevicePrimaryCtxRelease");
  }
  OwnCuda(const OwnCuda&) = delete;
  OwnCuda& operator=(const OwnCuda&) = delete;

  [[nodiscard]] void* context() const { return context_; }
  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] std::uint64_t memory() const { return memory_; }

  void fill(std::uint32_t value) const { call(cuMemsetD32Async(memory_, value, words, stream_), "cuMemsetD32Async"); }
  void copy_from(std::uint64_t address) const {
    call(cuMemcpyDtoDAsync_v2(memory_, address, bytes, stream_), "cuMemcpyDtoDAsync");
  }
  [[nodiscard]] bool holds(std::uint32_t value) const {
    std::vector<std::uint32_t> found(words);
    call(cuMemcpyDtoHAsync_v2(found.data(), memory_, bytes, stream_), "cuMemcpyDtoHAsync");
    call(cuStreamSynchronize(stream_), "cuStreamSynchronize");
    return found == std::vector<std::uint32_t>(words, value);
  }
  // The context is current still, and all works.
  void use(std::uint32_t value) const {
    void* current = nullptr;
    call(cuCtxGetCurrent(&current), "cuCtxGetCurrent");
    require(current == context_, "keeping the program's context current");
    fill(value);
    require(holds(value), "reading what the program filled");
  }

 private:
  int device_ = 0;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  unsigned long long memory_ = 0;
};

// In memory and a stream of its own.
void use_kdart(const std::shared_ptr<kdart::GpuBackend>& gpu) {
  std::vector<std::uint32_t> sent(words), received(words);
  for (std::size_t i = 0; i < words; ++i) sent[i] = static_cast<std::uint32_t>(i * 2654435761U);
  const kdart::OwnedStream stream(gpu);
  const kdart::Buffer first(gpu, bytes), second(gpu, bytes);
  gpu->copy_h2d(first.get(), sent.data(), bytes);
  gpu->copy_d2d_async(second.get(), first.get(), bytes, stream.get());
  gpu->synchronize(stream.get());
  gpu->copy_d2h(received.data(), second.get(), bytes);
  require(sent == received, "a round trip through kdart's device");
}

// On the program's memory, in the program's stream, between its own operations and with no wait between them.
void share(const OwnCuda& own, const std::shared_ptr<kdart::GpuBackend>& gpu) {
  auto* interop = gpu->service<kdart::CudaInterop>();
  require(interop != nullptr, "asking for the interop service");
  require(interop->native_context() == own.context(), "working in the program's context");
  const kdart::Stream stream = interop->adopt_stream(own.stream());
  const kdart::DevicePtr memory = gpu->import_memory(own.memory(), bytes);
  const kdart::Buffer kept(gpu, bytes);
  own.fill(7);
  gpu->copy_d2d_async(kept.get(), memory, bytes, stream);
  own.fill(8);
  gpu->fill(memory, 9, 4, words / 2, stream);
  own.copy_from(kept.get().address());
  require(own.holds(7), "keeping the order of the program's stream");
  gpu->release_import(memory);
  gpu->destroy_stream(stream);
  own.use(10);
}

}  // namespace

int main() {
  const auto own = std::make_unique<OwnCuda>();
  own->use(1);
  auto gpu = kdart::open_device("cuda:0");
  use_kdart(gpu);
  own->use(2);
  auto adopted = kdart::adopt_cuda_context(own->context());
  use_kdart(adopted);
  share(*own, adopted);
  use_kdart(gpu);
  adopted.reset();
  own->use(3);
  const std::string name = gpu->info().name;
  gpu.reset();  // kdart's share of the context goes, the program's stays
  own->use(4);
  use_kdart(kdart::open_device("cuda:0"));
  own->use(5);
  std::printf("its own CUDA beside kdart's on %s\n", name.c_str());
  return 0;
}
