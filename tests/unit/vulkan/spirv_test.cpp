// Reading SPIR-V: what is right is understood, and nothing that is wrong gets further, whatever is wrong with it.
#include "backends/vulkan/spirv.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "kdart/kda_kernels.h"
#include "tests/support/error_of.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_values.h"
#include "tests/support/test_device.h"
#include "tests/unit/vulkan/spirv_assembler.h"

namespace kdart::test {
namespace {

using vulkan::parse_spirv;
using vulkan::SpirvModule;

SpirvWords words_of(std::span<const std::byte> bytes) {
  SpirvWords words(bytes.size() / 4);
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  return words;
}

// The modules of the device tests, as the build made them.
const SpirvWords& test_image() {
  static const SpirvWords words = words_of(TestKernels::of("vulkan").image());
  return words;
}

SpirvWords module_of(std::string_view entry) {
  for (const SpirvModule& module : parse_spirv(test_image(), "image")) {
    if (module.entries.at(0).name == entry) return {module.words.begin(), module.words.end()};
  }
  FAIL("no module " << entry);
  return {};
}

// "" when the words are taken, else the message. Anything thrown but Error(invalid_image) fails the test.
std::string refusal_of(std::span<const std::uint32_t> words) {
  try {
    static_cast<void>(parse_spirv(words, "some.spv"));
    return "";
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::invalid_image);
    return error.what();
  }
}

void check_arguments(const SpirvModule& module, const ContractKernel& contract) {
  INFO(contract.name);
  REQUIRE(module.arguments.size() == contract.args.size());
  for (std::size_t i = 0; i < contract.args.size(); ++i) {
    CHECK(module.arguments[i].offset == contract.args[i].offset);
    CHECK(module.arguments[i].size == contract.args[i].size);
  }
  CHECK(module.by_address == (contract.argument_bytes > 128));
}

}  // namespace

TEST_CASE("the modules of an image are read as the compiler made them", "[vulkan][spirv]") {
  const std::vector<SpirvModule> modules = parse_spirv(test_image(), "image");
  // All of the contract's but those that do harm.
  const TestKernels kernels = TestKernels::of("vulkan");
  const std::vector<ImageKernel>& stated = kernels.manifest.images.at(0).kernels;
  REQUIRE(modules.size() == stated.size());
  std::size_t words = 0;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const SpirvModule& module = modules[i];
    REQUIRE(module.entries.size() == 1);
    CHECK(module.entries[0].name == stated[i].symbol);
    const ContractKernel* contract = kernels::device_contract().find(stated[i].name);
    REQUIRE(contract != nullptr);
    CHECK_FALSE(module.entries[0].block.has_value());
    CHECK(module.major == 1);
    CHECK(module.minor == 5);
    CHECK(module.static_shared_bytes == 0);  // rotate's is as long as the launch says
    auto capabilities = module.capabilities;
    std::sort(capabilities.begin(), capabilities.end());
    CHECK(capabilities == std::vector<std::string>{"Int64", "PhysicalStorageBufferAddresses", "Shader"});
    check_arguments(module, *contract);
    CHECK(module.words.data() == test_image().data() + words);
    words += module.words.size();
  }
  CHECK(words == test_image().size());
}

TEST_CASE("the layer's own image states what its contract does", "[vulkan][spirv]") {
  const auto set = KernelSet::embedded(kernels::kda_contract(), "vulkan");
  for (const ManifestImage& image : set->manifest().images) {
    const SpirvWords words = words_of(set->read_image(image));
    std::vector<std::string> capabilities;
    for (const SpirvModule& module : parse_spirv(words, image.file)) {
      const std::string_view symbol = module.entries.at(0).name;
      const auto stated = std::find_if(image.kernels.begin(), image.kernels.end(),
                                       [&](const ImageKernel& kernel) { return kernel.symbol == symbol; });
      REQUIRE(stated != image.kernels.end());
      const ContractKernel* contract = kernels::kda_contract().find(stated->name);
      REQUIRE(contract != nullptr);
      check_arguments(module, *contract);
      CHECK(module.static_shared_bytes == stated->static_shared_bytes);
      capabilities.insert(capabilities.end(), module.capabilities.begin(), module.capabilities.end());
    }
    std::sort(capabilities.begin(), capabilities.end());
    capabilities.erase(std::unique(capabilities.begin(), capabilities.end()), capabilities.end());
    CHECK(capabilities == image.capabilities);
  }
}

TEST_CASE("a module cut short anywhere is refused", "[vulkan][spirv]") {
  for (const char* name : {"kdart_affine", "kdart_rotate", "kdart_many_args"}) {
    const SpirvWords module = module_of(name);
    CHECK(refusal_of(module).empty());
    for (std::size_t length = 0; length < module.size(); ++length) {
      INFO(name << " of " << module.size() << " words, cut at " << length);
      REQUIRE_FALSE(refusal_of(std::span(module).first(length)).empty());
    }
    // The same at the end of another module.
    SpirvWords image = module;
    for (std::size_t length = 1; length < module.size(); length += 7) {
      image.resize(module.size());
      image.insert(image.end(), module.begin(), module.begin() + static_cast<std::ptrdiff_t>(length));
      REQUIRE_FALSE(refusal_of(image).empty());
    }
  }
}

TEST_CASE("a module with any word changed is taken or refused, no more", "[vulkan][spirv]") {
  std::size_t taken = 0, refused = 0;
  for (const char* name : {"kdart_spin", "kdart_rotate", "kdart_many_args"}) {
    SpirvWords module = module_of(name);
    for (std::uint32_t& word : module) {
      const std::uint32_t right = word;
      for (const std::uint32_t wrong : {~right, right ^ 1U, right + 1, right ^ 0x10000U, 0U, 0xFFFFU, spirv::magic}) {
        if (wrong == right) continue;
        word = wrong;
        ++(refusal_of(module).empty() ? taken : refused);
      }
      word = right;
    }
    CHECK(refusal_of(module).empty());
  }
  CHECK(taken > 1000);  // names, constants, code
  CHECK(refused > 1000);
}

TEST_CASE("words of chance are refused", "[vulkan][spirv]") {
  Random random(1);
  for (int i = 0; i < 2000; ++i) {
    SpirvWords words(random.bits() % 100);
    for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random.bits());
    REQUIRE_FALSE(refusal_of(words).empty());
    // Behind a right header, with instructions of right lengths.
    SpirvAssembler assembler;
    for (std::size_t k = 0; k < words.size(); ++k) {
      SpirvWords operands(random.bits() % 6);
      for (std::uint32_t& operand : operands) operand = static_cast<std::uint32_t>(random.bits() % 50);
      assembler.op(static_cast<std::uint32_t>(random.bits() % 80), operands);
    }
    static_cast<void>(refusal_of(assembler.words()));
  }
}

TEST_CASE("a block that the module fixes is read", "[vulkan][spirv]") {
  const SpirvWords words = SpirvAssembler().begin("name of nine").end().words();
  const auto modules = parse_spirv(words, "image");
  REQUIRE(modules.size() == 1);
  CHECK(modules[0].entries.at(0).name == "name of nine");
  CHECK(modules[0].entries[0].block == std::array<std::uint32_t, 3>{64, 2, 1});
  CHECK(modules[0].arguments.empty());
  CHECK_FALSE(modules[0].by_address);
}

TEST_CASE("shared memory of fixed size is counted", "[vulkan][spirv]") {
  SpirvAssembler assembler;
  assembler.begin()
      .op(spirv::type_float, {10, 32})
      .op(spirv::type_int, {11, 32, 0})
      .op(spirv::constant, {11, 12, 100})
      .op(spirv::spec_constant, {11, 13, 5000})
      .op(spirv::type_array, {14, 10, 12})       // 400 bytes
      .op(spirv::type_vector, {15, 10, 4})       // 16
      .op(spirv::type_struct, {16, 14, 15, 11})  // 420
      .op(spirv::type_array, {17, 10, 13})       // as long as the launch says
      .op(spirv::type_pointer, {20, spirv::workgroup, 14})
      .op(spirv::type_pointer, {21, spirv::workgroup, 16})
      .op(spirv::type_pointer, {22, spirv::workgroup, 17})
      .op(spirv::variable, {20, 30, spirv::workgroup})
      .op(spirv::variable, {21, 31, spirv::workgroup})
      .op(spirv::variable, {22, 32, spirv::workgroup})
      .end();
  CHECK(parse_spirv(assembler.words(), "image").at(0).static_shared_bytes == 820);
}

TEST_CASE("an argument block is told from a pointer that is the only argument", "[vulkan][spirv]") {
  const auto with_pointee = [](std::initializer_list<std::uint32_t> members) {
    SpirvAssembler assembler;
    assembler.begin()
        .op(spirv::decorate, {16, 2})
        .op(spirv::member_decorate, {16, 0, spirv::offset, 0})
        .op(spirv::member_decorate, {14, 0, spirv::offset, 0})
        .op(spirv::member_decorate, {14, 1, spirv::offset, 4})
        .op(spirv::type_int, {10, 32, 0});
    SpirvWords pointee{14};
    pointee.insert(pointee.end(), members);
    assembler.op(spirv::type_struct, pointee)
        .op(spirv::type_pointer, {15, spirv::physical_buffer, 14})
        .op(spirv::type_struct, {16, 15})
        .op(spirv::type_pointer, {17, spirv::push_constant, 16})
        .op(spirv::variable, {17, 18, spirv::push_constant})
        .end();
    const SpirvWords words = assembler.words();
    SpirvModule module = parse_spirv(words, "image").at(0);
    module.words = {};
    return module;
  };
  const SpirvModule one_pointer = with_pointee({10});
  CHECK_FALSE(one_pointer.by_address);
  REQUIRE(one_pointer.arguments.size() == 1);
  CHECK(one_pointer.arguments[0].size == 8);
  const SpirvModule block = with_pointee({10, 10});
  CHECK(block.by_address);
  REQUIRE(block.arguments.size() == 2);
  CHECK(block.arguments[1].offset == 4);
  CHECK(block.arguments[1].size == 4);
}

TEST_CASE("each mistake in a module has its own message", "[vulkan][spirv]") {
  const SpirvWords right = SpirvAssembler().begin().end().words();
  REQUIRE(refusal_of(right).empty());
  const auto with = [&](std::size_t index, std::uint32_t word) {
    SpirvWords words = right;
    words.at(index) = word;
    return words;
  };
  const auto after_begin = [](auto add) {
    SpirvAssembler assembler;
    assembler.begin();
    add(assembler);
    return assembler.end().words();
  };
  struct Row {
    const char* text;
    SpirvWords words;
  };
  const Row rows[]{
      {"0 words are left", {}},
      {"where a module begins", with(0, 0x03022307)},  // the other byte order
      {"version word", with(1, 0x00020000)},
      {"version word", with(1, 0x00010501)},
      {"bound 0", with(3, 0)},
      {"bound", with(3, 0x7FFFFFFF)},
      {"schema", with(4, 1)},
      {"no words", with(5, 17)},
      {"and 2 are left",
       [&] {
         SpirvWords words = right;
         words.insert(words.end(), {5U << 16 | 1, 0});
         return words;
       }()},
      {"no entry point", SpirvAssembler().op(spirv::memory_model, {0, 1}).end().words()},
      {"no memory model", SpirvAssembler().op(spirv::entry_point, {5, 1, 'k'}).end().words()},
      {"has no function", SpirvAssembler().begin().words()},
      {"inside a function",
       [&] {
         SpirvWords words = right;
         words.pop_back();
         return words;
       }()},
      {"execution model", SpirvAssembler().op(spirv::entry_point, {6, 1, 'k'}).end().words()},
      {"name is empty", SpirvAssembler().op(spirv::entry_point, {5, 1, 0}).end().words()},
      {"does not end", SpirvAssembler().op(spirv::entry_point, {5, 1, 0x6b6b6b6b}).end().words()},
      {"second entry point", SpirvAssembler().begin().op(spirv::entry_point, {5, 1, 'k'}).end().words()},
      {"no entry point", SpirvAssembler().begin().op(spirv::execution_mode, {9, 17, 1, 1, 1}).end().words()},
      {"the id 200", after_begin([](auto& a) { a.op(spirv::type_int, {200, 32, 0}); })},
      {"the id 0", after_begin([](auto& a) { a.op(spirv::type_int, {0, 32, 0}); })},
      {"operands", after_begin([](auto& a) { a.op(spirv::type_int, {10}); })},
      {"function inside", after_begin([](auto& a) { a.op(spirv::function, {2, 9, 0, 3}); })},
      {"outside one", after_begin([](auto& a) { a.op(spirv::function_end); })},
      {"used as a type", after_begin([](auto& a) { a.op(spirv::variable, {50, 51, spirv::workgroup}); })},
      {"no structure", after_begin([](auto& a) {
         a.op(spirv::type_int, {10, 32, 0})
             .op(spirv::type_pointer, {11, spirv::push_constant, 10})
             .op(spirv::variable, {11, 12, spirv::push_constant});
       })},
      {"no offset", after_begin([](auto& a) {
         a.op(spirv::type_int, {10, 32, 0})
             .op(spirv::type_struct, {11, 10})
             .op(spirv::type_pointer, {12, spirv::push_constant, 11})
             .op(spirv::variable, {12, 13, spirv::push_constant});
       })},
      {"second block", after_begin([](auto& a) {
         a.op(spirv::member_decorate, {11, 0, spirv::offset, 0})
             .op(spirv::type_int, {10, 32, 0})
             .op(spirv::type_struct, {11, 10})
             .op(spirv::type_pointer, {12, spirv::push_constant, 11})
             .op(spirv::variable, {12, 13, spirv::push_constant})
             .op(spirv::variable, {12, 14, spirv::push_constant});
       })},
      {"deep", after_begin([](auto& a) {
         // A structure in itself.
         a.op(spirv::type_struct, {10, 10})
             .op(spirv::type_pointer, {11, spirv::workgroup, 10})
             .op(spirv::variable, {11, 12, spirv::workgroup});
       })},
  };
  for (const Row& row : rows) {
    const std::string message = refusal_of(row.words);
    INFO("expected: " << row.text << "; found: " << message);
    CHECK(message.find(row.text) != std::string::npos);
    if (!message.empty()) CHECK(message.find("some.spv") != std::string::npos);
  }
}

TEST_CASE("types that multiply are refused or counted at once", "[vulkan][spirv]") {
  // Fifteen levels of a structure with sixteen members: more parts than could ever be walked.
  SpirvAssembler deep;
  deep.begin().op(spirv::type_int, {10, 32, 0});
  for (std::uint32_t level = 11; level < 26; ++level) {
    SpirvWords members(17, level - 1);
    members[0] = level;
    deep.op(spirv::type_struct, members);
  }
  deep.op(spirv::type_pointer, {30, spirv::workgroup, 25}).op(spirv::variable, {30, 31, spirv::workgroup}).end();
  CHECK(refusal_of(deep.words()).find("shared memory") != std::string::npos);

  // Arrays of arrays, whose size passes 64 bits and comes around to 0.
  SpirvAssembler wide;
  wide.begin().op(spirv::type_int, {10, 32, 0}).op(spirv::constant, {10, 11, 0x80000000U});
  for (std::uint32_t level = 12; level < 16; ++level)
    wide.op(spirv::type_array, {level, level == 12 ? 10 : level - 1, 11});
  wide.op(spirv::type_pointer, {30, spirv::workgroup, 15}).op(spirv::variable, {30, 31, spirv::workgroup}).end();
  CHECK(refusal_of(wide.words()).find("shared memory") != std::string::npos);
}

TEST_CASE("capabilities have the names that manifests use", "[vulkan][spirv]") {
  CHECK(vulkan::capability_name(spirv::shader) == "Shader");
  CHECK(vulkan::capability_name(11) == "Int64");
  CHECK(vulkan::capability_name(4433) == "StorageBuffer16BitAccess");
  CHECK(vulkan::capability_name(5347) == "PhysicalStorageBufferAddresses");
  CHECK(vulkan::capability_name(spirv::cooperative_matrix) == "CooperativeMatrixKHR");
  CHECK(vulkan::capability_name(123456).find("123456") != std::string::npos);
}

}  // namespace kdart::test
