#include "tests/unit/cpu/test_device.h"

#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/runtime/sha256.h"
#include "tests/cpu_test_images.h"

namespace kdart::test {
namespace {

std::vector<std::byte> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file.good());
  const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

constexpr ContractArg pointer(std::string_view name) {
  return {name, ArgKind::ptr, 0, 8, "u32", ArgAccess::inout, false, 4, "1"};
}
constexpr ContractArg scalar(std::string_view name, std::uint16_t offset, ArgKind kind = ArgKind::u32) {
  return {name, kind, offset, 4, "", ArgAccess::none, false, 0, ""};
}

constexpr std::array one_pointer{pointer("out")};
constexpr std::array pointer_and_scalar{pointer("out"), scalar("n", 8)};
constexpr std::array pointer_and_float{pointer("out"), scalar("x", 8, ArgKind::f32)};
constexpr std::array affine_args{pointer("data"), scalar("count", 8), scalar("factor", 12), scalar("term", 16)};
constexpr std::array one_scalar{scalar("n", 0)};

LaunchShape one_thread(const std::byte*) {
  return {};
}
void one_element(const std::byte*, std::uint64_t* elements) {
  elements[0] = 1;
}

ContractKernel kernel(std::string_view name, bool barriers, std::span<const ContractArg> args) {
  const auto bytes = static_cast<std::uint16_t>(args.back().offset + args.back().size);
  return {name, true, barriers, args, bytes, "", one_thread, one_element};
}

const std::vector<ContractKernel>& contract_kernels() {
  static const std::vector<ContractKernel> kernels{
      kernel("visit", false, one_pointer),        kernel("visit_with_barrier", true, one_pointer),
      kernel("ids", false, one_pointer),          kernel("ids_on_the_engine", true, one_pointer),
      kernel("rotate", true, pointer_and_scalar), kernel("rotate_wrongly", true, pointer_and_scalar),
      kernel("leave", true, pointer_and_scalar),  kernel("affine", false, affine_args),
      kernel("fail", false, one_scalar),          kernel("fail_on_the_engine", true, one_scalar),
      kernel("halve", false, pointer_and_float),
  };
  return kernels;
}

nlohmann::json manifest_of(std::span<const std::byte> image) {
  auto kernels = nlohmann::json::array();
  auto symbols = nlohmann::json::array();
  for (const ContractKernel& kernel : test_contract().kernels) {
    auto args = nlohmann::json::array();
    for (const ContractArg& arg : kernel.args) {
      args.push_back({{"name", arg.name}, {"kind", to_string(arg.kind)}, {"offset", arg.offset}, {"size", arg.size}});
    }
    kernels.push_back({{"name", kernel.name}, {"args", args}, {"argument_bytes", kernel.argument_bytes}});
    symbols.push_back({{"name", kernel.name}, {"symbol", kernel.name}, {"static_shared_bytes", 0}});
  }
  return {{"schema", 1},
          {"set", "test"},
          {"version", "1"},
          {"backend", "cpu"},
          {"toolchain", {{"c++", "20"}}},
          {"kernels", kernels},
          {"images",
           {{{"file", "test.so"},
             {"target", "x86-64"},
             {"format", "elf_shared"},
             {"bytes", image.size()},
             {"sha256", detail::sha256_hex(image)},
             {"kernels", symbols}}}}};
}

// The manifest is read now, the image when it is loaded: so the bytes stay with the set.
class SetInMemory final : public KernelSet {
 public:
  explicit SetInMemory(std::span<const std::byte> image)
      : KernelSet(test_contract(), Manifest::parse(manifest_of(image).dump(), "test manifest"), "memory"),
        image_(image.begin(), image.end()) {}

 private:
  [[nodiscard]] std::vector<std::byte> do_read(const ManifestImage&) const override { return image_; }
  std::vector<std::byte> image_;
};

}  // namespace

std::vector<std::byte> good_image() {
  return read_file(good_image_path);
}
std::vector<std::byte> wrong_abi_image() {
  return read_file(wrong_abi_image_path);
}
std::vector<std::byte> image_without_table() {
  return read_file(no_table_image_path);
}

const Contract& test_contract() {
  static const Contract contract{"test", 1, contract_kernels()};
  return contract;
}

std::shared_ptr<const KernelSet> test_set(std::span<const std::byte> image) {
  return std::make_shared<SetInMemory>(image);
}

CpuTestDevice::CpuTestDevice(CpuEngine engine, std::uint32_t threads) {
  OpenOptions options;
  options.cpu_engine = engine;
  options.cpu_threads = threads;
  gpu = open_device("cpu:0", options);
  kernels = gpu->load(test_set(good_image()));
}

Buffer CpuTestDevice::upload(std::span<const std::uint32_t> values) const {
  Buffer buffer(gpu, values.size_bytes());
  gpu->copy_h2d(buffer.get(), values.data(), values.size_bytes());
  return buffer;
}

std::vector<std::uint32_t> CpuTestDevice::download(const Buffer& buffer) const {
  std::vector<std::uint32_t> values(buffer.bytes() / sizeof(std::uint32_t));
  gpu->copy_d2h(values.data(), buffer.get(), buffer.bytes());
  return values;
}

bool CpuTestDevice::canary() const {
  const OwnedStream stream(gpu);
  const Buffer buffer = upload(std::vector<std::uint32_t>(64, 0));
  KernelLaunch(*gpu, (*this)["rotate"])
      .grid(2)
      .block(32)
      .shared_mem(128)
      .arg(buffer.get())
      .arg(5U)
      .launch(stream.get());
  gpu->synchronize(stream.get());
  const std::vector<std::uint32_t> values = download(buffer);
  for (std::uint32_t i = 0; i < 64; ++i) {
    if (values[i] != (i % 32 + 5) % 32) return false;
  }
  return true;
}

}  // namespace kdart::test
