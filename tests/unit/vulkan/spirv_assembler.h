// SPIR-V modules made word by word, right or wrong in one place.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace kdart::test {

using SpirvWords = std::vector<std::uint32_t>;

// The opcodes and numbers that the tests use.
namespace spirv {
inline constexpr std::uint32_t magic = 0x07230203, capability = 17, memory_model = 14, entry_point = 15,
                               execution_mode = 16, type_void = 19, type_int = 21, type_float = 22, type_vector = 23,
                               type_array = 28, type_struct = 30, type_pointer = 32, type_function = 33, constant = 43,
                               spec_constant = 50, function = 54, function_end = 56, variable = 59, decorate = 71,
                               member_decorate = 72, label = 248, return_ = 253;
inline constexpr std::uint32_t workgroup = 4, push_constant = 9, physical_buffer = 5349;
inline constexpr std::uint32_t offset = 35;
inline constexpr std::uint32_t cooperative_matrix = 6022, shader = 1, kernel = 6;
}  // namespace spirv

class SpirvAssembler {
 public:
  explicit SpirvAssembler(std::uint32_t version = 0x00010500, std::uint32_t bound = 200)
      : words_{spirv::magic, version, 0, bound, 0} {}

  SpirvAssembler& op(std::uint32_t opcode, std::initializer_list<std::uint32_t> operands = {}) {
    return op(opcode, std::span(operands.begin(), operands.size()));
  }
  SpirvAssembler& op(std::uint32_t opcode, std::span<const std::uint32_t> operands) {
    words_.push_back(static_cast<std::uint32_t>(operands.size() + 1) << 16 | opcode);
    words_.insert(words_.end(), operands.begin(), operands.end());
    return *this;
  }
  // The beginning of every module: one entry point `name` for compute, which is function 1.
  SpirvAssembler& begin(std::string_view name = "k") {
    op(spirv::capability, {spirv::shader});
    op(spirv::memory_model, {0, 1});
    SpirvWords entry{5, 1};
    entry.resize(2 + name.size() / 4 + 1);
    std::memcpy(entry.data() + 2, name.data(), name.size());
    op(spirv::entry_point, entry);
    return op(spirv::execution_mode, {1, 17, 64, 2, 1});
  }
  // The end: the function. Ids 1 to 4 are used.
  SpirvAssembler& end() {
    op(spirv::type_void, {2}).op(spirv::type_function, {3, 2});
    return op(spirv::function, {2, 1, 0, 3}).op(spirv::label, {4}).op(spirv::return_).op(spirv::function_end);
  }
  [[nodiscard]] const SpirvWords& words() const { return words_; }

 private:
  SpirvWords words_;
};

}  // namespace kdart::test
