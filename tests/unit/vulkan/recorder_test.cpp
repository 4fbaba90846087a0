// That every operation of a stream or graph comes after all before it. No driver at hand and no layer can see a barrier that
// is missing: lavapipe runs one thing after the other, and validation does not look behind addresses.
#include "backends/vulkan/recorder.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/support/random_values.h"

namespace kdart::test {
namespace {

using vulkan::BufferPlace;
using vulkan::CopySide;

enum class Kind : std::uint8_t { begin, end, barrier, bind, push, dispatch, copy, reset_query, timestamp };

struct Command {
  Kind kind;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  VkPipelineStageFlags from = 0, to = 0;  // barrier
  VkAccessFlags written = 0, read = 0;
  VkPipeline pipeline = VK_NULL_HANDLE;
  std::vector<std::byte> pushed = {};
  Dim3 groups{0, 0, 0};
  std::vector<VkBufferCopy> regions = {};
};

// What the fake driver was told. One recorder at a time.
std::vector<Command> told;

template <class Handle>
Handle fake_handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}
const auto commands = fake_handle<VkCommandBuffer>(0x10);
const auto layout = fake_handle<VkPipelineLayout>(0x20);
vulkan::BytePipelines fake_pipelines() {
  vulkan::BytePipelines pipelines;
  pipelines.fill = fake_handle<VkPipeline>(0x30);
  pipelines.copy = fake_handle<VkPipeline>(0x31);
  return pipelines;
}
const vulkan::BytePipelines bytes = fake_pipelines();

vulkan::DeviceFunctions recording_functions() {
  vulkan::DeviceFunctions fn;
  fn.vkBeginCommandBuffer = [](VkCommandBuffer buffer, const VkCommandBufferBeginInfo*) {
    told.push_back({.kind = Kind::begin, .buffer = buffer});
    return VK_SUCCESS;
  };
  fn.vkEndCommandBuffer = [](VkCommandBuffer buffer) {
    told.push_back({.kind = Kind::end, .buffer = buffer});
    return VK_SUCCESS;
  };
  fn.vkCmdPipelineBarrier = [](VkCommandBuffer buffer, VkPipelineStageFlags from, VkPipelineStageFlags to,
                               VkDependencyFlags, std::uint32_t count, const VkMemoryBarrier* barriers, std::uint32_t,
                               const VkBufferMemoryBarrier*, std::uint32_t, const VkImageMemoryBarrier*) {
    Command command{.kind = Kind::barrier, .buffer = buffer, .from = from, .to = to};
    for (std::uint32_t i = 0; i < count; ++i) {
      command.written |= barriers[i].srcAccessMask;
      command.read |= barriers[i].dstAccessMask;
    }
    told.push_back(command);
  };
  fn.vkCmdBindPipeline = [](VkCommandBuffer buffer, VkPipelineBindPoint, VkPipeline pipeline) {
    told.push_back({.kind = Kind::bind, .buffer = buffer, .pipeline = pipeline});
  };
  fn.vkCmdPushConstants = [](VkCommandBuffer buffer, VkPipelineLayout, VkShaderStageFlags, std::uint32_t offset,
                             std::uint32_t size, const void* data) {
    const auto* first = static_cast<const std::byte*>(data);
    told.push_back({.kind = Kind::push, .buffer = buffer, .pushed = {first, first + size}});
    CHECK(offset == 0);
    CHECK(size % 4 == 0);
  };
  fn.vkCmdDispatch = [](VkCommandBuffer buffer, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    told.push_back({.kind = Kind::dispatch, .buffer = buffer, .groups = {x, y, z}});
  };
  fn.vkCmdCopyBuffer = [](VkCommandBuffer buffer, VkBuffer, VkBuffer, std::uint32_t count,
                          const VkBufferCopy* regions) {
    told.push_back({.kind = Kind::copy, .buffer = buffer, .regions = {regions, regions + count}});
  };
  fn.vkCmdResetQueryPool = [](VkCommandBuffer buffer, VkQueryPool, std::uint32_t, std::uint32_t) {
    told.push_back({.kind = Kind::reset_query, .buffer = buffer});
  };
  fn.vkCmdWriteTimestamp = [](VkCommandBuffer buffer, VkPipelineStageFlagBits, VkQueryPool, std::uint32_t) {
    told.push_back({.kind = Kind::timestamp, .buffer = buffer});
  };
  return fn;
}

// Everything before, of whatever kind, is done and visible to everything after.
bool is_full_barrier(const Command& command) {
  return command.kind == Kind::barrier && command.from == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT &&
         command.to == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT && command.written == VK_ACCESS_MEMORY_WRITE_BIT &&
         command.read == (VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT);
}

CopySide in_buffer(std::uint64_t offset, std::uintptr_t buffer = 0x40) {
  return {DevicePtr(0x100000 + offset), BufferPlace{fake_handle<VkBuffer>(buffer), offset}};
}
CopySide by_address(std::uint64_t address) {
  return {DevicePtr(address), std::nullopt};
}

constexpr std::uint32_t operation_kinds = 7;

void record(vulkan::Recorder& recorder, std::uint32_t kind, std::span<const std::byte> arguments) {
  switch (kind) {
    case 0:
      return recorder.dispatch({fake_handle<VkPipeline>(0x50), {2, 3, 4}, arguments});
    case 1:
      return recorder.dispatch({fake_handle<VkPipeline>(0x51), {1, 1, 1}, {}});
    case 2:
      return recorder.copy(in_buffer(0), in_buffer(64, 0x41), 32);
    case 3:
      return recorder.copy_rows(in_buffer(0), 128, by_address(0x7001), 64, 32, 5);
    case 4:
      return recorder.copy_rows(in_buffer(0), 128, in_buffer(1, 0x41), 64, 32, 2500);
    case 5:
      return recorder.fill(DevicePtr(0x7003), 0x12345678, 2, 11);
    default:
      return recorder.timestamp(fake_handle<VkQueryPool>(0x60), 3);
  }
}

}  // namespace

TEST_CASE("every two operations have a barrier between them", "[vulkan][recorder]") {
  const vulkan::DeviceFunctions functions = recording_functions();
  const std::vector<std::byte> arguments(24);
  Random random(1);
  vulkan::Recorder recorder(functions, layout, bytes);
  for (int buffer = 0; buffer < 20; ++buffer) {
    told.clear();
    recorder.begin(commands, 0);
    CHECK(recorder.recording());
    REQUIRE(told.size() == 1);
    CHECK(told[0].kind == Kind::begin);
    for (std::uint32_t operation = 0; operation < 100; ++operation) {
      const std::size_t before = told.size();
      // All kinds one after the other first, then any.
      record(recorder,
             operation < operation_kinds ? operation : static_cast<std::uint32_t>(random.bits() % operation_kinds),
             arguments);
      REQUIRE(told.size() > before + 1);
      CHECK(is_full_barrier(told[before]));  // also before the first of a buffer: earlier submissions end there
      for (std::size_t i = before + 1; i < told.size(); ++i) {
        CHECK(told[i].kind != Kind::barrier);
        CHECK(told[i].buffer == commands);
      }
      CHECK(recorder.operations() == operation + 1);
    }
    const std::size_t before = told.size();
    recorder.end();
    CHECK_FALSE(recorder.recording());
    // What was written is visible to the host once the work has passed.
    REQUIRE(told.size() == before + 2);
    const Command& last = told[before];
    CHECK(last.kind == Kind::barrier);
    CHECK(last.from == VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
    CHECK(last.to == VK_PIPELINE_STAGE_HOST_BIT);
    CHECK(last.written == VK_ACCESS_MEMORY_WRITE_BIT);
    CHECK(last.read == VK_ACCESS_HOST_READ_BIT);
    CHECK(told.back().kind == Kind::end);
  }
}

TEST_CASE("a pipeline is bound once while it stays the same", "[vulkan][recorder]") {
  const vulkan::DeviceFunctions functions = recording_functions();
  vulkan::Recorder recorder(functions, layout, bytes);
  const auto binds = [] {
    std::vector<VkPipeline> pipelines;
    for (const Command& command : told) {
      if (command.kind == Kind::bind) pipelines.push_back(command.pipeline);
    }
    return pipelines;
  };
  const auto one = fake_handle<VkPipeline>(0x50), two = fake_handle<VkPipeline>(0x51);
  told.clear();
  recorder.begin(commands, 0);
  for (const VkPipeline pipeline : {one, one, one, two, two, one}) recorder.dispatch({pipeline, {1, 1, 1}, {}});
  recorder.copy(in_buffer(0), in_buffer(0, 0x41), 4);  // binds nothing
  recorder.dispatch({one, {1, 1, 1}, {}});
  recorder.fill(DevicePtr(4), 0, 4, 1);
  recorder.copy(by_address(8), by_address(16), 4);
  recorder.dispatch({one, {1, 1, 1}, {}});
  CHECK(binds() == std::vector<VkPipeline>{one, two, one, bytes.fill, bytes.copy, one});
  recorder.end();
  // Nothing stays bound from one buffer to the next.
  told.clear();
  recorder.begin(commands, 0);
  recorder.dispatch({one, {1, 1, 1}, {}});
  recorder.end();
  CHECK(binds() == std::vector<VkPipeline>{one});
}

TEST_CASE("rows beyond what one command takes are all copied", "[vulkan][recorder]") {
  const vulkan::DeviceFunctions functions = recording_functions();
  vulkan::Recorder recorder(functions, layout, bytes);
  for (const std::uint64_t height : {1U, 2U, 1023U, 1024U, 1025U, 5000U}) {
    told.clear();
    recorder.begin(commands, 0);
    recorder.copy_rows(in_buffer(3), 100, in_buffer(7, 0x41), 50, 20, height);
    recorder.end();
    std::uint64_t row = 0;
    for (const Command& command : told) {
      if (command.kind != Kind::copy) continue;
      CHECK(command.regions.size() <= 1024);
      for (const VkBufferCopy& region : command.regions) {
        REQUIRE(region.dstOffset == 3 + row * 100);
        REQUIRE(region.srcOffset == 7 + row * 50);
        REQUIRE(region.size == 20);
        ++row;
      }
    }
    CHECK(row == height);
    CHECK(recorder.operations() == 1);
  }
}

TEST_CASE("grids of fills and copies stay within what every device has", "[vulkan][recorder]") {
  const vulkan::DeviceFunctions functions = recording_functions();
  vulkan::Recorder recorder(functions, layout, bytes);
  told.clear();
  recorder.begin(commands, 0);
  std::uint64_t groups = 0;
  const std::uint64_t huge = std::uint64_t{1} << 40;
  recorder.fill(DevicePtr(1), 7, 1, 1);
  recorder.fill(DevicePtr(1), 7, 1, huge);
  recorder.copy(by_address(1), by_address(huge), huge - 8);
  recorder.copy_rows(by_address(1), 10, by_address(huge), 10, 10, huge / 16);
  recorder.end();
  for (const Command& command : told) {
    if (command.kind != Kind::dispatch) continue;
    CHECK(command.groups.x >= 1);
    CHECK(command.groups.y >= 1);
    CHECK(command.groups.z == 1);
    CHECK(std::max(command.groups.x, command.groups.y) <= 65535);
    groups += command.groups.threads();
  }
  CHECK(recorder.groups() == groups);  // what a watchdog counts
}

TEST_CASE("the vector kernel copies whole vectors and nothing else", "[vulkan][recorder]") {
  const vulkan::DeviceFunctions functions = recording_functions();
  vulkan::BytePipelines with_vectors = fake_pipelines();
  with_vectors.copy_vectors = fake_handle<VkPipeline>(0x32);
  struct Row {
    std::uint64_t to, to_pitch, from, from_pitch, width;
    bool vectors;
  };
  const Row rows[]{{16, 64, 32, 48, 32, true}, {8, 64, 32, 48, 32, false},  {16, 72, 32, 48, 32, false},
                   {16, 64, 4, 48, 32, false}, {16, 64, 32, 33, 32, false}, {16, 64, 32, 48, 31, false}};
  for (const Row& row : rows) {
    for (const bool bare : {false, true}) {
      vulkan::Recorder recorder(functions, layout, with_vectors);
      told.clear();
      recorder.begin(commands, 0);
      const CopySide source = bare ? by_address(0x200000 + row.from) : in_buffer(row.from, 0x41);
      recorder.copy_rows(in_buffer(row.to), row.to_pitch, source, row.from_pitch, row.width, 3);
      recorder.copy(in_buffer(0), in_buffer(64, 0x41), 32);  // host memory on one side: always the command
      recorder.end();
      std::vector<VkPipeline> bound;
      std::size_t copies = 0;
      for (const Command& command : told) {
        if (command.kind == Kind::bind) bound.push_back(command.pipeline);
        if (command.kind == Kind::copy) ++copies;
      }
      INFO("width " << row.width << ", offsets " << row.to << " and " << row.from);
      if (row.vectors) {
        CHECK(bound == std::vector<VkPipeline>{with_vectors.copy_vectors});
      } else if (bare) {
        CHECK(bound == std::vector<VkPipeline>{with_vectors.copy});
      } else {
        CHECK(bound.empty());
      }
      CHECK(copies == (bound.empty() ? 2U : 1U));
    }
  }
}

TEST_CASE("a fill repeats its value to a whole word", "[vulkan][recorder]") {
  const vulkan::DeviceFunctions functions = recording_functions();
  vulkan::Recorder recorder(functions, layout, bytes);
  for (const auto& [width, pattern] : {std::pair{1U, 0x78787878U}, {2U, 0x56785678U}, {4U, 0x12345678U}}) {
    told.clear();
    recorder.begin(commands, 0);
    recorder.fill(DevicePtr(0x1000), 0x12345678U, width, 10);
    recorder.end();
    for (const Command& command : told) {
      if (command.kind != Kind::push) continue;
      std::uint64_t begin = 0, size = 0;
      std::uint32_t word = 0;
      std::memcpy(&begin, command.pushed.data(), 8);
      std::memcpy(&size, command.pushed.data() + 8, 8);
      std::memcpy(&word, command.pushed.data() + 16, 4);
      CHECK(begin == 0x1000);
      CHECK(size == 10 * width);
      CHECK(word == pattern);
    }
  }
}

}  // namespace kdart::test
