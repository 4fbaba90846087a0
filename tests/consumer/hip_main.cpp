// A program that uses HIP itself, linked with -lamdhip64, and kdart beside it: each must leave the other's streams and memory
// alone, and the thread's device as it is. The runtime's entry points are declared by hand, so no ROCm is needed.
#include <kdart/hip.h>
#include <kdart/owned.h>
#include <kdart/registry.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

extern "C" {
int hipInit(unsigned flags);
int hipGetDevice(int* device);
int hipSetDevice(int device);
int hipStreamCreateWithFlags(void** stream, unsigned flags);
int hipStreamDestroy(void* stream);
int hipStreamSynchronize(void* stream);
int hipMalloc(void** memory, std::size_t bytes);
int hipFree(void* memory);
int hipMemsetD32Async(void* memory, int value, std::size_t count, void* stream);
int hipMemcpyDtoDAsync(void* to, void* from, std::size_t bytes, void* stream);
int hipMemcpyDtoHAsync(void* to, void* from, std::size_t bytes, void* stream);
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

// The program's own HIP, by direct calls: a stream and memory on device 0.
class OwnHip {
 public:
  OwnHip() {
    call(hipInit(0), "hipInit");
    call(hipSetDevice(0), "hipSetDevice");
    call(hipStreamCreateWithFlags(&stream_, 1), "hipStreamCreateWithFlags");
    call(hipMalloc(&memory_, bytes), "hipMalloc");
  }
  ~OwnHip() {
    call(hipFree(memory_), "hipFree");
    call(hipStreamDestroy(stream_), "hipStreamDestroy");
  }
  OwnHip(const OwnHip&) = delete;
  OwnHip& operator=(const OwnHip&) = delete;

  [[nodiscard]] void* stream() const { return stream_; }
  [[nodiscard]] std::uint64_t memory() const { return reinterpret_cast<std::uintptr_t>(memory_); }

  void fill(int value) const { call(hipMemsetD32Async(memory_, value, words, stream_), "hipMemsetD32Async"); }
  void copy_from(std::uint64_t address) const {
    call(hipMemcpyDtoDAsync(memory_, reinterpret_cast<void*>(address), bytes, stream_), "hipMemcpyDtoDAsync");
  }
  [[nodiscard]] bool holds(std::uint32_t value) const {
    std::vector<std::uint32_t> found(words);
    call(hipMemcpyDtoHAsync(found.data(), memory_, bytes, stream_), "hipMemcpyDtoHAsync");
    call(hipStreamSynchronize(stream_), "hipStreamSynchronize");
    return found == std::vector<std::uint32_t>(words, value);
  }
  void use(int value) const {
    int device = -1;
    call(hipGetDevice(&device), "hipGetDevice");
    require(device == 0, "keeping the program's device current");
    fill(value);
    require(holds(static_cast<std::uint32_t>(value)), "reading what the program filled");
  }

 private:
  void* stream_ = nullptr;
  void* memory_ = nullptr;
};

// On the program's memory, in the program's stream, between its own operations and with no wait between them.
void share(const OwnHip& own, const std::shared_ptr<kdart::GpuBackend>& gpu) {
  auto* interop = gpu->service<kdart::HipInterop>();
  require(interop != nullptr, "asking for the interop service");
  const kdart::Stream stream = interop->adopt_stream(own.stream());
  require(interop->native_stream(stream) == own.stream(), "giving the program's stream back");
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
  const OwnHip own;
  own.use(1);
  auto gpu = kdart::open_device("hip:0");
  share(own, gpu);
  std::printf("its own HIP beside kdart's on %s (%s)\n", gpu->info().name.c_str(), gpu->info().note.c_str());
  gpu.reset();
  own.use(2);
  share(own, kdart::open_device("hip:0"));
  return 0;
}
