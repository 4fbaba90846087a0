#include "backends/vulkan/spirv.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/runtime/fail.h"
#include "core/runtime/messages.h"

namespace kdart::vulkan {
namespace {

constexpr std::uint32_t magic = 0x07230203;
constexpr std::uint32_t header_words = 5;
constexpr std::uint32_t max_bound = 1U << 22;                // SPIR-V's own universal limit
constexpr std::uint64_t too_large = std::uint64_t{1} << 40;  // no type is so large; sums of a few do not overflow

// The instructions and values of the SPIR-V specification that are looked at.
enum Op : std::uint32_t {
  op_memory_model = 14,
  op_entry_point = 15,
  op_execution_mode = 16,
  op_capability = 17,
  op_type_int = 21,
  op_type_float = 22,
  op_type_vector = 23,
  op_type_array = 28,
  op_type_struct = 30,
  op_type_pointer = 32,
  op_type_forward_pointer = 39,
  op_constant = 43,
  op_spec_constant = 50,
  op_spec_constant_composite = 51,
  op_function = 54,
  op_function_end = 56,
  op_variable = 59,
  op_decorate = 71,
  op_member_decorate = 72,
};
constexpr std::uint32_t model_compute = 5;  // GLCompute
constexpr std::uint32_t mode_local_size = 17;
constexpr std::uint32_t decoration_builtin = 11;
constexpr std::uint32_t decoration_offset = 35;
constexpr std::uint32_t builtin_workgroup_size = 25;
constexpr std::uint32_t storage_workgroup = 4;
constexpr std::uint32_t storage_push_constant = 9;

// Type declarations, by id.
struct Type {
  enum class Kind : std::uint8_t { scalar, vector, array, structure, pointer } kind = Kind::scalar;
  std::uint32_t bytes = 0;             // scalar
  std::uint32_t element = 0;           // vector, array, pointer: a type's id
  std::uint32_t count = 0;             // vector; array: the id of its length
  std::vector<std::uint32_t> members;  // structure
};

struct Variable {
  std::uint32_t pointer_type, storage;
};

class ModuleReader {
 public:
  ModuleReader(std::span<const std::uint32_t> words, std::size_t first, std::string_view file)
      : words_(words), first_(first), at_(first), file_(file) {}

  // Reads to the end of the module; `end` is where it is.
  SpirvModule read(std::size_t& end);

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    detail::fail(ErrorCode::invalid_image, "image '{}', SPIR-V word {}: {}", file_, at_,
                 detail::format(text, std::forward<Args>(args)...));
  }
  void read_header();
  void read_instruction(std::uint32_t op, std::span<const std::uint32_t> operands);
  void read_entry_point(std::span<const std::uint32_t> operands);
  void read_decoration(std::uint32_t op, std::span<const std::uint32_t> operands);
  void read_type(std::uint32_t op, std::span<const std::uint32_t> operands);
  void need(std::span<const std::uint32_t> operands, std::size_t count) const {
    if (operands.size() < count)
      refuse("an instruction with {} operands, of which it needs {}", operands.size(), count);
  }
  std::uint32_t declared(std::uint32_t id) const {
    if (id == 0 || id >= bound_) refuse("the id {}, where ids are from 1 to {}", id, bound_ - 1);
    return id;
  }
  const Type& type(std::uint32_t id) const {
    const auto found = types_.find(id);
    if (found == types_.end()) refuse("{} is used as a type and is none that was declared", id);
    return found->second;
  }
  // Bytes of a value of a type without padding between its parts, `too_large` at most; nothing where a specialization
  // constant is its length.
  using Bytes = std::optional<std::uint64_t>;
  Bytes bytes_of(std::uint32_t id, int depth = 0) const;
  Bytes compute_bytes(const Type& type, int depth) const;
  void finish();
  void finish_arguments(std::uint32_t pointer_type);

  std::span<const std::uint32_t> words_;
  std::size_t first_, at_;
  std::string_view file_;
  std::uint32_t bound_ = 0;
  SpirvModule module_;
  std::map<std::uint32_t, std::uint32_t> entry_functions_;  // function id -> index of the entry
  std::map<std::uint32_t, Type> types_;
  std::map<std::uint32_t, std::uint32_t> constants_;
  std::set<std::uint32_t> spec_constants_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> offsets_;  // (struct, member)
  std::vector<Variable> variables_;
  mutable std::map<std::uint32_t, Bytes> bytes_;  // of types, as far as they were asked for
  std::uint32_t workgroup_size_ = 0;              // the constant that is the block
  std::set<std::uint32_t> functions_;
  bool in_function_ = false;
  bool memory_model_ = false;
};

void ModuleReader::read_header() {
  if (words_.size() - at_ < header_words)
    refuse("{} words are left, a module's header has {}", words_.size() - at_, header_words);
  if (words_[at_] != magic) refuse("0x{:08x} where a module begins with 0x{:08x}", words_[at_], magic);
  const std::uint32_t version = words_[at_ + 1];
  module_.major = version >> 16 & 0xFFU;
  module_.minor = version >> 8 & 0xFFU;
  if (module_.major != 1 || (version & 0xFF0000FFU) != 0)
    refuse("the version word 0x{:08x} is none of SPIR-V 1", version);
  bound_ = words_[at_ + 3];
  if (bound_ == 0 || bound_ > max_bound) refuse("the bound {} of ids, expected 1 to {}", bound_, max_bound);
  if (words_[at_ + 4] != 0) refuse("the schema {}, expected 0", words_[at_ + 4]);
  at_ += header_words;
}

SpirvModule ModuleReader::read(std::size_t& end) {
  read_header();
  while (at_ < words_.size() && words_[at_] != magic) {
    const std::uint32_t count = words_[at_] >> 16;
    const std::uint32_t op = words_[at_] & 0xFFFFU;
    if (count == 0) refuse("an instruction of no words");
    if (count > words_.size() - at_) refuse("an instruction of {} words, and {} are left", count, words_.size() - at_);
    read_instruction(op, words_.subspan(at_ + 1, count - 1));
    at_ += count;
  }
  end = at_;
  finish();
  module_.words = words_.subspan(first_, at_ - first_);
  return std::move(module_);
}

void ModuleReader::read_instruction(std::uint32_t op, std::span<const std::uint32_t> operands) {
  switch (op) {
    case op_capability:
      need(operands, 1);
      module_.capabilities.push_back(capability_name(operands[0]));
      break;
    case op_memory_model:
      memory_model_ = true;
      break;
    case op_entry_point:
      read_entry_point(operands);
      break;
    case op_execution_mode:
      need(operands, 2);
      if (operands[1] == mode_local_size) {
        need(operands, 5);
        const auto entry = entry_functions_.find(operands[0]);
        if (entry == entry_functions_.end()) refuse("an execution mode of {}, which is no entry point", operands[0]);
        module_.entries[entry->second].block = {operands[2], operands[3], operands[4]};
      }
      break;
    case op_decorate:
    case op_member_decorate:
      read_decoration(op, operands);
      break;
    case op_constant:
    case op_spec_constant:
      need(operands, 3);
      constants_[declared(operands[1])] = operands[2];
      if (op == op_spec_constant) spec_constants_.insert(operands[1]);
      break;
    case op_spec_constant_composite:
      need(operands, 2);
      spec_constants_.insert(declared(operands[1]));
      break;
    case op_variable:
      need(operands, 3);
      if (!in_function_) variables_.push_back({declared(operands[0]), operands[2]});
      break;
    case op_function:
      need(operands, 4);
      if (in_function_) refuse("a function inside a function");
      functions_.insert(declared(operands[1]));
      in_function_ = true;
      break;
    case op_function_end:
      if (!in_function_) refuse("the end of a function outside one");
      in_function_ = false;
      break;
    default:
      read_type(op, operands);
      break;
  }
}

void ModuleReader::read_entry_point(std::span<const std::uint32_t> operands) {
  need(operands, 3);
  if (operands[0] != model_compute) refuse("an entry point of execution model {}, expected GLCompute", operands[0]);
  SpirvEntry entry;
  bool ended = false;
  for (std::size_t i = 2; i < operands.size() && !ended; ++i) {
    for (std::uint32_t byte = 0; byte < 4 && !ended; ++byte) {
      const char c = static_cast<char>(operands[i] >> 8 * byte & 0xFFU);
      ended = c == '\0';
      if (!ended) entry.name += c;
    }
  }
  if (!ended || entry.name.empty()) refuse("an entry point whose name is empty or does not end");
  for (const SpirvEntry& other : module_.entries) {
    if (other.name == entry.name) refuse("a second entry point {}", detail::quote(entry.name));
  }
  entry_functions_[declared(operands[1])] = static_cast<std::uint32_t>(module_.entries.size());
  module_.entries.push_back(std::move(entry));
}

void ModuleReader::read_decoration(std::uint32_t op, std::span<const std::uint32_t> operands) {
  need(operands, 2);
  if (op == op_decorate) {
    if (operands[1] == decoration_builtin && operands.size() > 2 && operands[2] == builtin_workgroup_size) {
      workgroup_size_ = declared(operands[0]);
    }
    return;
  }
  need(operands, 3);
  if (operands[2] != decoration_offset) return;
  need(operands, 4);
  offsets_[{operands[0], operands[1]}] = operands[3];
}

void ModuleReader::read_type(std::uint32_t op, std::span<const std::uint32_t> operands) {
  Type type;
  switch (op) {
    case op_type_int:
    case op_type_float:
      need(operands, 2);
      type.bytes = operands[1] / 8;
      break;
    case op_type_vector:
    case op_type_array:
      need(operands, 3);
      type.kind = op == op_type_vector ? Type::Kind::vector : Type::Kind::array;
      type.element = operands[1];
      type.count = operands[2];
      break;
    case op_type_struct:
      need(operands, 1);
      type.kind = Type::Kind::structure;
      type.members.assign(operands.begin() + 1, operands.end());
      break;
    case op_type_pointer:
      need(operands, 3);
      type.kind = Type::Kind::pointer;
      type.element = operands[2];
      break;
    default:
      return;
  }
  types_[declared(operands[0])] = std::move(type);
}

// Each type once: a few structures in one another have more parts than could be walked.
ModuleReader::Bytes ModuleReader::bytes_of(std::uint32_t id, int depth) const {
  if (const auto known = bytes_.find(id); known != bytes_.end()) return known->second;
  if (depth > 16) refuse("types inside types, more than 16 deep");
  const Bytes bytes = compute_bytes(type(id), depth);
  bytes_.emplace(id, bytes);
  return bytes;
}

ModuleReader::Bytes ModuleReader::compute_bytes(const Type& t, int depth) const {
  const auto times = [](Bytes element, std::uint64_t count) -> Bytes {
    if (!element) return std::nullopt;
    return *element != 0 && count > too_large / *element ? too_large : *element * count;
  };
  switch (t.kind) {
    case Type::Kind::scalar:
      return t.bytes;
    case Type::Kind::pointer:
      return 8;
    case Type::Kind::vector:
      return times(bytes_of(t.element, depth + 1), t.count);
    case Type::Kind::array: {
      const auto length = constants_.find(t.count);
      if (length == constants_.end() || spec_constants_.contains(t.count)) return std::nullopt;
      return times(bytes_of(t.element, depth + 1), length->second);
    }
    case Type::Kind::structure:
      break;
  }
  std::uint64_t sum = 0;
  for (const std::uint32_t member : t.members) {
    const Bytes bytes = bytes_of(member, depth + 1);
    if (!bytes) return std::nullopt;
    sum = std::min(sum + *bytes, too_large);
  }
  return sum;
}

void ModuleReader::finish() {
  if (in_function_) refuse("the module ends inside a function");
  if (!memory_model_) refuse("the module has no memory model");
  if (module_.entries.empty()) refuse("the module has no entry point");
  for (const auto& [function, entry] : entry_functions_) {
    if (!functions_.contains(function))
      refuse("entry point {} has no function", detail::quote(module_.entries[entry].name));
  }
  if (spec_constants_.contains(workgroup_size_)) {
    for (SpirvEntry& entry : module_.entries) entry.block.reset();
  }
  std::uint64_t shared = 0;
  bool arguments = false;
  for (const Variable& variable : variables_) {
    if (variable.storage == storage_workgroup) shared += bytes_of(type(variable.pointer_type).element).value_or(0);
    if (variable.storage != storage_push_constant) continue;
    if (arguments) refuse("a second block of push constants");
    arguments = true;
    finish_arguments(variable.pointer_type);
  }
  if (shared > std::numeric_limits<std::uint32_t>::max()) refuse("{} bytes of shared memory", shared);
  module_.static_shared_bytes = static_cast<std::uint32_t>(shared);
}

// A block of one member that is an address of a structure holds the arguments elsewhere.
void ModuleReader::finish_arguments(std::uint32_t pointer_type) {
  std::uint32_t block = type(pointer_type).element;
  if (type(block).kind != Type::Kind::structure) refuse("push constants that are no structure");
  if (type(block).members.size() == 1 && type(type(block).members[0]).kind == Type::Kind::pointer) {
    const std::uint32_t pointee = type(type(block).members[0]).element;
    const Type& target = type(pointee);
    // A kernel's only argument may be a pointer too; an argument block has more than one member, with offsets.
    if (target.kind == Type::Kind::structure && target.members.size() > 1) {
      module_.by_address = true;
      block = pointee;
    }
  }
  const Type& structure = type(block);
  for (std::uint32_t i = 0; i < structure.members.size(); ++i) {
    const auto offset = offsets_.find({block, i});
    const auto bytes = bytes_of(structure.members[i]);
    if (offset == offsets_.end() || !bytes || *bytes > std::numeric_limits<std::uint32_t>::max())
      refuse("argument {} has no offset or no fixed size", i);
    module_.arguments.push_back({offset->second, static_cast<std::uint32_t>(*bytes)});
  }
}

}  // namespace

std::vector<SpirvModule> parse_spirv(std::span<const std::uint32_t> words, std::string_view file) {
  std::vector<SpirvModule> modules;
  std::size_t at = 0;
  do {  // an empty image has no header, and is refused for it
    ModuleReader reader(words, at, file);
    modules.push_back(reader.read(at));
  } while (at < words.size());
  return modules;
}

std::string capability_name(std::uint32_t capability) {
  switch (capability) {
    case 0:
      return "Matrix";
    case 1:
      return "Shader";
    case 9:
      return "Float16";
    case 10:
      return "Float64";
    case 11:
      return "Int64";
    case 12:
      return "Int64Atomics";
    case 22:
      return "Int16";
    case 39:
      return "Int8";
    case 61:
      return "GroupNonUniform";
    case 62:
      return "GroupNonUniformVote";
    case 63:
      return "GroupNonUniformArithmetic";
    case 64:
      return "GroupNonUniformBallot";
    case 65:
      return "GroupNonUniformShuffle";
    case 4433:
      return "StorageBuffer16BitAccess";
    case 4434:
      return "StorageUniform16";
    case 4435:
      return "StoragePushConstant16";
    case 4448:
      return "StorageBuffer8BitAccess";
    case 4464:
      return "DenormPreserve";
    case 4466:
      return "SignedZeroInfNanPreserve";
    case 4467:
      return "RoundingModeRTE";
    case 5345:
      return "VulkanMemoryModel";
    case 5347:
      return "PhysicalStorageBufferAddresses";
    case 6022:
      return "CooperativeMatrixKHR";
    default:
      return detail::format("capability {}", capability);
  }
}

}  // namespace kdart::vulkan
