#include "tests/unit/common/walk.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <utility>

#include "kdart/launch.h"
#include "kdart/owned.h"
#include "tests/support/sample_set.h"

namespace kdart::test {
namespace {

constexpr std::size_t bytes = 1024;
constexpr std::chrono::seconds long_enough{10};

}  // namespace

std::vector<Walk::Step> Walk::steps() {
  std::vector<Step> steps;
  steps.push_back({"open", [this] { gpu_ = fake_.open(); }});
  add_memory(steps);
  add_streams(steps);
  add_kernels(steps);
  add_graphs(steps);
  add_sharing(steps);
  add_releases(steps);
  return steps;
}

void Walk::add_memory(std::vector<Step>& steps) {
  in_.resize(bytes);
  out_.resize(bytes);
  for (std::size_t i = 0; i < bytes; ++i) in_[i] = static_cast<std::byte>(i);
  steps.push_back({"facts", [this] { static_cast<void>(gpu_->facts()); }});
  steps.push_back({"alloc", [this] { x_ = gpu_->alloc(bytes); }});
  steps.push_back({"alloc", [this] { y_ = gpu_->alloc(bytes); }});
  steps.push_back({"memory_info", [this] {
                     const MemoryInfo info = gpu_->memory_info();
                     CHECK(info.live == 2 * bytes);
                   }});
  steps.push_back({"copy_h2d", [this] { gpu_->copy_h2d(x_, in_.data(), bytes); }});
  steps.push_back({"copy_d2d", [this] { gpu_->copy_d2d(y_, x_, bytes); }});
  steps.push_back({"copy_d2h", [this] {
                     gpu_->copy_d2h(out_.data(), y_, bytes);
                     CHECK(out_ == in_);
                   }});
  steps.push_back({"alloc_pinned", [this] { pinned_ = gpu_->alloc_pinned(bytes); }});
  steps.push_back({"contains", [this] { CHECK(gpu_->contains(x_, bytes)); }});
}

void Walk::add_streams(std::vector<Step>& steps) {
  steps.push_back({"create_stream", [this] { stream_ = gpu_->create_stream(); }});
  steps.push_back({"create_stream", [this] { other_ = gpu_->create_stream(); }});
  steps.push_back({"create_event", [this] { event_ = gpu_->create_event(); }});
  steps.push_back({"create_event", [this] { later_ = gpu_->create_event(); }});
  steps.push_back({"alloc_async", [this] { z_ = gpu_->alloc_async(bytes, stream_); }});
  steps.push_back({"fill 1", [this] { gpu_->fill(z_, 0x11, 1, bytes, stream_); }});
  steps.push_back({"fill 2", [this] { gpu_->fill(z_, 0x2222, 2, bytes / 2, stream_); }});
  steps.push_back({"fill 4", [this] { gpu_->fill(z_, 0x44444444, 4, bytes / 4, stream_); }});
  steps.push_back({"record", [this] { gpu_->record(event_, stream_); }});
  steps.push_back({"wait", [this] { gpu_->wait(other_, event_); }});
  steps.push_back({"copy_h2d_async pinned", [this] { gpu_->copy_h2d_async(x_, pinned_, bytes, other_); }});
  steps.push_back({"copy_h2d_async", [this] { gpu_->copy_h2d_async(x_, in_.data(), bytes, other_); }});
  steps.push_back({"copy_d2d_async", [this] { gpu_->copy_d2d_async(y_, z_, bytes, other_); }});
  steps.push_back({"copy_2d_d2d_async", [this] { gpu_->copy_2d_d2d_async(y_, 256, x_, 128, 64, 4, other_); }});
  steps.push_back({"copy_d2h_async pinned", [this] { gpu_->copy_d2h_async(pinned_, y_, bytes, other_); }});
  steps.push_back({"flush", [this] { gpu_->flush(other_); }});
  steps.push_back({"record", [this] { gpu_->record(later_, other_); }});
  steps.push_back({"query", [this] { static_cast<void>(gpu_->query(event_)); }});
  steps.push_back({"wait_host", [this] { gpu_->wait_host(event_); }});
  steps.push_back({"wait_host for a time", [this] { gpu_->wait_host(later_, long_enough); }});
  steps.push_back({"elapsed_ms", [this] {
                     const double ms = gpu_->elapsed_ms(event_, later_);
                     CHECK(ms > 0);
                   }});
  steps.push_back({"synchronize", [this] { gpu_->synchronize(other_); }});
  steps.push_back({"synchronize for a time", [this] { gpu_->synchronize(stream_, long_enough); }});
  steps.push_back({"free_async", [this] { gpu_->free_async(std::exchange(z_, {}), stream_); }});
}

void Walk::add_kernels(std::vector<Step>& steps) {
  steps.push_back({"load", [this] { set_ = gpu_->load(fake_.set()); }});
  steps.push_back({"kernel_info", [this] {
                     const KernelInfo& info = gpu_->kernel_info(set_->get("scale"));
                     CHECK(info.name == "scale");
                   }});
  steps.push_back({"prepare", [this] { gpu_->prepare(set_->get("scale"), {64, 1, 1}, fake_.much_shared_memory()); }});
  steps.push_back({"launch", [this] { launch_scale(*gpu_, *set_, x_, y_, stream_); }});
  steps.push_back({"launch unprepared", [this] {
                     KernelLaunch(gpu_, set_->get("extra"))
                         .grid(1)
                         .block(1)
                         .shared_mem(fake_.much_shared_memory() - (10U << 10))
                         .launch(stream_);
                   }});
  if (fake_.takes_launch_attributes()) {
    steps.push_back({"launch with attributes", [this] {
                       KernelLaunch(gpu_, set_->get("extra"))
                           .grid(4)
                           .block(32)
                           .attributes({.cluster = {2, 1, 1}, .dependent = true})
                           .launch(stream_);
                     }});
  }
  steps.push_back({"synchronize", [this] { gpu_->synchronize(stream_); }});
}

void Walk::add_graphs(std::vector<Step>& steps) {
  steps.push_back({"begin_capture", [this] { gpu_->begin_capture(stream_); }});
  steps.push_back({"captured launch", [this] { launch_scale(*gpu_, *set_, x_, y_, stream_); }});
  steps.push_back({"captured record", [this] { gpu_->record(event_, stream_); }});
  steps.push_back({"captured wait", [this] { gpu_->wait(other_, event_); }});
  steps.push_back({"captured fill", [this] { gpu_->fill(y_, 7, 1, bytes, other_); }});
  steps.push_back({"captured record", [this] { gpu_->record(later_, other_); }});
  steps.push_back({"captured wait", [this] { gpu_->wait(stream_, later_); }});
  steps.push_back({"captured copy", [this] { gpu_->copy_d2d_async(y_, x_, bytes, stream_); }});
  steps.push_back({"end_capture", [this] { graph_ = gpu_->end_capture(stream_); }});
  steps.push_back({"launch_graph", [this] { gpu_->launch_graph(graph_, stream_); }});
  steps.push_back({"launch_graph", [this] { gpu_->launch_graph(graph_, stream_); }});
  steps.push_back({"synchronize", [this] { gpu_->synchronize(stream_); }});
  steps.push_back({"begin_capture", [this] { gpu_->begin_capture(stream_); }});
  steps.push_back({"captured launch", [this] { launch_scale(*gpu_, *set_, x_, y_, stream_); }});
  steps.push_back({"what no capture holds", [this] {
                     try {
                       gpu_->synchronize(stream_);
                       FAIL("a captured stream was waited for");
                     } catch (const Error& error) {
                       if (error.code() != ErrorCode::capture_invalidated) throw;
                     }
                   }});
  steps.push_back({"launch", [this] { launch_scale(*gpu_, *set_, x_, y_, stream_); }});
}

void Walk::add_sharing(std::vector<Step>& steps) {
  steps.push_back({"adopt_stream", [this] { adopted_ = fake_.adopt_default_stream(*gpu_); }});
  steps.push_back({"launch on it", [this] { launch_scale(*gpu_, *set_, x_, y_, adopted_); }});
  steps.push_back({"adopt_stream of a context", [this] { gpu_->destroy_stream(fake_.adopt_own_stream(*gpu_)); }});
  steps.push_back({"import_memory", [this] {
                     const DevicePtr memory = gpu_->import_memory(0x7000000000000000, bytes);
                     gpu_->release_import(memory);
                   }});
  steps.push_back({"destroy_stream", [this] { gpu_->destroy_stream(adopted_); }});
}

void Walk::add_releases(std::vector<Step>& steps) {
  steps.push_back({"destroy_graph", [this] { gpu_->destroy_graph(graph_); }});
  steps.push_back({"unload", [this] { set_.reset(); }});
  steps.push_back({"free_pinned", [this] { gpu_->free_pinned(pinned_); }});
  steps.push_back({"free", [this] { gpu_->free(x_); }});
  steps.push_back({"free", [this] { gpu_->free(y_); }});
  steps.push_back({"destroy_event", [this] { gpu_->destroy_event(event_); }});
  steps.push_back({"destroy_stream", [this] { gpu_->destroy_stream(other_); }});
  steps.push_back({"close", [this] { drop(); }});
}

void Walk::drop() noexcept {
  set_.reset();
  gpu_.reset();
}

void canary(const FakeDriver& fake, const std::shared_ptr<GpuBackend>& gpu) {
  const Buffer x(gpu, bytes);
  const Buffer y(gpu, bytes);
  const OwnedStream stream(gpu);
  std::vector<std::byte> in(bytes, std::byte{42});
  std::vector<std::byte> out(bytes);
  const auto set = gpu->load(fake.set());
  gpu->copy_h2d(x.get(), in.data(), bytes);
  launch_scale(*gpu, *set, x.get(), y.get(), stream.get());
  gpu->copy_d2d_async(y.get(), x.get(), bytes, stream.get());
  gpu->synchronize(stream.get());
  gpu->copy_d2h(out.data(), y.get(), bytes);
  CHECK(out == in);
  const auto launches = fake.launches();
  REQUIRE(!launches.empty());
  CHECK(launches.back().runs == 1);
}

}  // namespace kdart::test
