// A vendor that does nothing but remember: what the tests of backend.h's rules open. Memory is the host's, work runs when
// it is submitted, a graph is the list of what was captured.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kdart/backend.h"
#include "kdart/gemm_service.h"

namespace kdart::test {

// A device with small limits: 1024 threads (1024 x 512 x 64), a grid of 65535 x 1000 x 1000, 64 KiB of shared memory.
[[nodiscard]] DeviceInfo fake_info();

class FakeBackend final : public GpuBackend {
 public:
  [[nodiscard]] static std::shared_ptr<FakeBackend> open(OpenOptions options = {}, DeviceInfo info = fake_info());
  ~FakeBackend() override;

  // How often a do_* function was called: calls("alloc") counts do_alloc.
  [[nodiscard]] int calls(const std::string& function) const;
  [[nodiscard]] std::set<std::string> called() const;
  // The `nth` next call of the function throws `error` and does nothing.
  void fail_call(const std::string& function, const Error& error, int nth = 1);
  // Throws something that is no Error instead.
  void fail_call_with_bad_alloc(const std::string& function);
  // do_synchronize and do_wait_host time out, do_query says no.
  void set_busy(bool busy) { busy_ = busy; }
  // What a worker thread of a real backend does when it meets a fault.
  void report(const Error& error) { set_sticky(error); }
  // Runs during do_synchronize and do_wait_host.
  void set_while_waiting(std::function<void()> hook) { while_waiting_ = std::move(hook); }
  void set_facts(DeviceFacts facts) { facts_ = std::move(facts); }
  void set_service(GemmService* service) { service_ = service; }
  // What do_get_kernel answers, by kernel; without an entry it states nothing.
  struct Stated {
    std::uint32_t max_threads = 0, static_shared_bytes = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> arguments;  // offset, size
  };
  std::map<std::string, Stated> stated;

  struct Launch {
    std::string kernel;
    LaunchRecord record;
    std::uint64_t stream;
  };
  [[nodiscard]] std::vector<Launch> launches() const;
  [[nodiscard]] std::optional<bool> last_pinned() const { return last_pinned_; }
  [[nodiscard]] std::optional<Timeout> last_timeout() const { return last_timeout_; }
  // Live objects of the fake driver: streams, events, graphs, modules, allocations, page-locked memory, imports.
  [[nodiscard]] static int live_objects();

 protected:
  DeviceFacts do_facts() const override;
  void* do_service(std::string_view id) override;
  DevicePtr do_alloc(std::uint64_t bytes) override;
  void do_free(DevicePtr memory) override;
  DevicePtr do_alloc_async(std::uint64_t bytes, Native stream) override;
  void do_free_async(DevicePtr memory, Native stream) override;
  void do_fill(DevicePtr dst, std::uint32_t value, std::uint32_t width, std::uint64_t count, Native stream) override;
  void do_copy_h2d(DevicePtr dst, const void* src, std::uint64_t bytes) override;
  void do_copy_d2h(void* dst, DevicePtr src, std::uint64_t bytes) override;
  void do_copy_d2d(DevicePtr dst, DevicePtr src, std::uint64_t bytes) override;
  void do_copy_h2d_async(DevicePtr dst, const void* src, std::uint64_t bytes, bool pinned, Native stream) override;
  void do_copy_d2h_async(void* dst, DevicePtr src, std::uint64_t bytes, bool pinned, Native stream) override;
  void do_copy_d2d_async(DevicePtr dst, DevicePtr src, std::uint64_t bytes, Native stream) override;
  void do_copy_2d_d2d_async(DevicePtr dst, std::uint64_t dst_pitch, DevicePtr src, std::uint64_t src_pitch,
                            std::uint64_t width, std::uint64_t height, Native stream) override;
  void* do_alloc_pinned(std::uint64_t bytes) override;
  void do_free_pinned(void* memory) override;
  DevicePtr do_import_memory(std::uint64_t native, std::uint64_t bytes) override;
  void do_release_import(DevicePtr memory) override;
  MemoryInfo do_memory_info() override;
  Native do_create_stream() override;
  void do_destroy_stream(Native stream) override;
  void do_flush(Native stream) override;
  bool do_synchronize(Native stream, Timeout timeout) override;
  Native do_create_event() override;
  void do_destroy_event(Native event) override;
  void do_record(Native event, Native stream) override;
  void do_wait(Native stream, Native event) override;
  bool do_wait_host(Native event, Timeout timeout) override;
  bool do_query(Native event) override;
  double do_elapsed_ms(Native start, Native end) override;
  Native do_load_image(const ManifestImage& image, std::span<const std::byte> bytes) override;
  KernelLoad do_get_kernel(Native module, const ImageKernel& kernel, const ContractKernel& contract) override;
  void do_unload_image(Native module) override;
  void do_prepare(Native kernel, Dim3 block, std::uint32_t shared_bytes) override;
  void do_launch(Native kernel, const LaunchRecord& record, Native stream) override;
  void do_begin_capture(Native stream) override;
  Native do_end_capture(Native stream) override;
  void do_abort_capture(Native stream) override;
  void do_launch_graph(Native graph, Native stream) override;
  void do_destroy_graph(Native graph) override;

 private:
  using Work = std::function<void()>;
  using Recording = std::shared_ptr<std::vector<Work>>;

  FakeBackend(DeviceInfo info, OpenOptions options);
  void enter(const char* function) const;
  void* allocate(std::uint64_t bytes);
  void release(void* memory);
  Native create();
  void destroy(Native object);
  // Runs the work, or keeps it when the stream is captured.
  void submit_work(Native stream, Work work);

  mutable std::mutex mutex_;
  mutable std::map<std::string, int> calls_;
  struct Failure {
    int countdown;
    std::function<void()> raise;
  };
  mutable std::map<std::string, Failure> failures_;
  DeviceFacts facts_;
  GemmService* service_ = nullptr;
  bool busy_ = false;
  std::function<void()> while_waiting_;
  std::optional<bool> last_pinned_;
  std::optional<Timeout> last_timeout_;
  Native next_ = 1;
  std::set<Native> objects_;
  std::set<void*> memory_;
  std::map<Native, Recording> captured_streams_;
  std::map<Native, Recording> captured_events_;
  std::map<Native, std::vector<Work>> graphs_;
  std::map<Native, std::string> kernels_;
  std::vector<Launch> launches_;
};

}  // namespace kdart::test
