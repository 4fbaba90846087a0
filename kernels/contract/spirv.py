#!/usr/bin/env python3
"""Reads SPIR-V, and puts the modules of a kernel set into one image. Python's standard library only.

An image is one or more complete SPIR-V modules one after the other. A reader that meets the magic word where an
instruction should begin has come to the next module: as an instruction it would have the unassigned opcode 0x0203.

Each module is checked first: its arguments lie where the contract says, it asks for no capability but the ones allowed,
and no compiler may change its float arithmetic. Its entry point, `main` in GLSL, becomes <prefix><kernel>.
"""

import argparse
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

import emit_glsl
import model

MAGIC = 0x07230203
HEADER_WORDS = 5

# Opcodes, in the order of the specification.
_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _NAME, _MEMBER_NAME, _STRING, _LINE = 2, 3, 4, 5, 6, 7, 8
_EXT_INST, _ENTRY_POINT, _EXECUTION_MODE, _CAPABILITY = 12, 15, 16, 17
_TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR, _TYPE_ARRAY, _TYPE_STRUCT, _TYPE_POINTER = 21, 22, 23, 28, 30, 32
_CONSTANT, _VARIABLE, _DECORATE, _MEMBER_DECORATE = 43, 59, 71, 72
_NO_LINE, _MODULE_PROCESSED = 317, 330
_DEBUG = {_SOURCE_CONTINUED, _SOURCE, _SOURCE_EXTENSION, _NAME, _MEMBER_NAME, _STRING, _LINE, _NO_LINE,
          _MODULE_PROCESSED}

_DECORATION_ARRAY_STRIDE, _DECORATION_OFFSET, _DECORATION_NO_CONTRACTION = 6, 35, 42
_STORAGE_WORKGROUP, _STORAGE_PUSH_CONSTANT, _STORAGE_PHYSICAL = 4, 9, 5349

# Arithmetic that is exact to the last bit only when nothing may be contracted, and the functions of GLSL.std.450 that
# may stand beside it: the others are as coarse as a device likes, or fused.
_ARITHMETIC = {127: "OpFNegate", 129: "OpFAdd", 131: "OpFSub", 133: "OpFMul", 136: "OpFDiv", 142: "OpVectorTimesScalar"}
_LOOSE = {140: "OpFRem", 141: "OpFMod", 143: "OpMatrixTimesScalar", 144: "OpVectorTimesMatrix",
          145: "OpMatrixTimesVector", 146: "OpMatrixTimesMatrix", 148: "OpDot"}
_FUNCTIONS = {31: "Sqrt", 38: "UMin", 41: "UMax"}

# Those that compute shaders use; a name is needed to write it into a manifest.
_CAPABILITIES = {
    0: "Matrix", 1: "Shader", 9: "Float16", 10: "Float64", 11: "Int64", 12: "Int64Atomics", 22: "Int16", 39: "Int8",
    61: "GroupNonUniform", 62: "GroupNonUniformVote", 63: "GroupNonUniformArithmetic", 64: "GroupNonUniformBallot",
    65: "GroupNonUniformShuffle", 66: "GroupNonUniformShuffleRelative", 67: "GroupNonUniformClustered",
    68: "GroupNonUniformQuad", 4433: "StorageBuffer16BitAccess", 4434: "UniformAndStorageBuffer16BitAccess",
    4435: "StoragePushConstant16", 4441: "VariablePointersStorageBuffer", 4442: "VariablePointers",
    4448: "StorageBuffer8BitAccess", 4449: "UniformAndStorageBuffer8BitAccess", 4450: "StoragePushConstant8",
    4464: "DenormPreserve", 4465: "DenormFlushToZero", 4466: "SignedZeroInfNanPreserve", 4467: "RoundingModeRTE",
    4468: "RoundingModeRTZ", 5116: "BFloat16TypeKHR", 5117: "BFloat16DotProductKHR",
    5118: "BFloat16CooperativeMatrixKHR", 5345: "VulkanMemoryModel", 5346: "VulkanMemoryModelDeviceScope",
    5347: "PhysicalStorageBufferAddresses",
    6022: "CooperativeMatrixKHR",
}

# What a kernel may promise of its 32-bit floats, where a device says that it keeps the promise: the capability and the
# execution mode. GLSL has no words for them.
_FLOAT_CONTROLS = {"DenormPreserve": (4464, 4459), "SignedZeroInfNanPreserve": (4466, 4461),
                   "RoundingModeRTE": (4467, 4462)}


class SpirvError(ValueError):
    """SPIR-V that cannot be read, or that is not what the contract says."""


@dataclass
class Instruction:
    opcode: int
    operands: list[int]


class Module:
    """One SPIR-V module."""

    def __init__(self, header, instructions):
        self._header = header
        self.instructions = instructions

    @property
    def version(self):
        """As manifests state it: spv1.5."""
        return f"spv{self._header[1] >> 16 & 0xFF}.{self._header[1] >> 8 & 0xFF}"

    @property
    def entry_point(self):
        """The name of the only one."""
        return _text(self._entry_point().operands[2:])

    def rename_entry_point(self, name):
        """Gives the entry point another name."""
        entry = self._entry_point()
        after = 2 + len(_text_words(_text(entry.operands[2:])))
        entry.operands[2:after] = _text_words(name)

    def control_floats(self, name):
        """Adds one of _FLOAT_CONTROLS."""
        capability, mode = _FLOAT_CONTROLS[name]
        self.instructions.insert(0, Instruction(_CAPABILITY, [capability]))
        entry = self._entry_point()
        after = self.instructions.index(entry) + 1
        self.instructions.insert(after, Instruction(_EXECUTION_MODE, [entry.operands[1], mode, 32]))

    def strip(self):
        """Removes names and source text, on which nothing depends."""
        self.instructions = [one for one in self.instructions if one.opcode not in _DEBUG]

    @property
    def capabilities(self):
        """Sorted names."""
        names = set()
        for one in self._all(_CAPABILITY):
            if one.operands[0] not in _CAPABILITIES:
                raise SpirvError(f"the capability number {one.operands[0]} has no name here")
            names.add(_CAPABILITIES[one.operands[0]])
        return sorted(names)

    @property
    def static_shared_bytes(self):
        """Of the workgroup's variables; an array whose length the launch sets counts nothing."""
        return sum(self._bytes(self._pointee(one)) for one in self._all(_VARIABLE)
                   if one.operands[2] == _STORAGE_WORKGROUP)

    def arguments(self, indirect=False):
        """(offset, size) of each member of the push constants; `indirect`: of the block whose address they hold."""
        blocks = [self._pointee(one) for one in self._all(_VARIABLE) if one.operands[2] == _STORAGE_PUSH_CONSTANT]
        if len(blocks) != 1:
            raise SpirvError(f"{len(blocks)} push constant blocks, expected 1")
        if not indirect:
            return self._members(blocks[0])
        members = self._types()[blocks[0]].operands[1:]
        pointer = self._types().get(members[0])
        if len(members) != 1 or pointer.opcode != _TYPE_POINTER or pointer.operands[1] != _STORAGE_PHYSICAL:
            raise SpirvError("the push constants are not one address of an argument block")
        return self._members(pointer.operands[2])

    def check_arithmetic(self):
        """Refuses float arithmetic that a compiler may contract, or whose precision is a device's own choice."""
        exact = {one.operands[0] for one in self._all(_DECORATE) if one.operands[1] == _DECORATION_NO_CONTRACTION}
        for one in self.instructions:
            if one.opcode in _ARITHMETIC and one.operands[1] not in exact:
                raise SpirvError(f"{_ARITHMETIC[one.opcode]} %{one.operands[1]} may be contracted; "
                                 "a `precise` is missing")
            if one.opcode in _LOOSE:
                raise SpirvError(f"{_LOOSE[one.opcode]} rounds as a device likes")
            if one.opcode == _EXT_INST and one.operands[3] not in _FUNCTIONS:
                raise SpirvError(f"function {one.operands[3]} of GLSL.std.450, expected one of "
                                 f"{', '.join(_FUNCTIONS.values())}")

    def data(self):
        """The module's bytes."""
        words = list(self._header)
        for one in self.instructions:
            words.append(len(one.operands) + 1 << 16 | one.opcode)
            words.extend(one.operands)
        return struct.pack(f"<{len(words)}I", *words)

    def _all(self, opcode):
        return [one for one in self.instructions if one.opcode == opcode]

    def _entry_point(self):
        entries = self._all(_ENTRY_POINT)
        if len(entries) != 1:
            raise SpirvError(f"{len(entries)} entry points, expected 1")
        return entries[0]

    def _types(self):
        declared = (_TYPE_INT, _TYPE_FLOAT, _TYPE_VECTOR, _TYPE_ARRAY, _TYPE_STRUCT, _TYPE_POINTER)
        return {one.operands[0]: one for one in self.instructions if one.opcode in declared}

    def _pointee(self, variable):
        return self._types()[variable.operands[0]].operands[2]

    def _length(self, array):
        """0 where the launch sets it."""
        constants = {one.operands[1]: one.operands[2] for one in self._all(_CONSTANT)}
        return constants.get(array.operands[2], 0)

    def _stride(self, array):
        for one in self._all(_DECORATE):
            if one.operands[:2] == [array.operands[0], _DECORATION_ARRAY_STRIDE]:
                return one.operands[2]
        return self._bytes(array.operands[1])  # arrays in shared memory state none

    def _bytes(self, type_id):
        one = self._types().get(type_id)
        if one is None:
            raise SpirvError(f"%{type_id} is no type that lies in a block or in shared memory")
        if one.opcode in (_TYPE_INT, _TYPE_FLOAT):
            return one.operands[1] // 8
        if one.opcode == _TYPE_POINTER:
            return 8
        if one.opcode == _TYPE_VECTOR:
            return one.operands[2] * self._bytes(one.operands[1])
        if one.opcode == _TYPE_ARRAY:
            return self._length(one) * self._stride(one)
        return sum(self._bytes(member) for member in one.operands[1:])

    def _members(self, type_id):
        offsets = {one.operands[1]: one.operands[3] for one in self._all(_MEMBER_DECORATE)
                   if one.operands[0] == type_id and one.operands[2] == _DECORATION_OFFSET}
        members = self._types()[type_id].operands[1:]
        if len(offsets) != len(members):
            raise SpirvError(f"%{type_id} is no block: {len(offsets)} offsets for {len(members)} members")
        return [(offsets[index], self._bytes(member)) for index, member in enumerate(members)]


def read_modules(data):
    """The modules of an image. Throws SpirvError."""
    if not data or len(data) % 4:
        raise SpirvError(f"{len(data)} bytes are no SPIR-V")
    words = struct.unpack(f"<{len(data) // 4}I", data)
    modules = []
    at = 0
    while at < len(words):
        if words[at] != MAGIC or at + HEADER_WORDS > len(words):
            raise SpirvError(f"no module begins at byte {4 * at}")
        header = words[at:at + HEADER_WORDS]
        at += HEADER_WORDS
        instructions = []
        while at < len(words) and words[at] != MAGIC:
            count = words[at] >> 16
            if count == 0 or at + count > len(words):
                raise SpirvError(f"the instruction at byte {4 * at} has {count} words, and {len(words) - at} are left")
            instructions.append(Instruction(words[at] & 0xFFFF, list(words[at + 1:at + count])))
            at += count
        modules.append(Module(header, instructions))
    return modules


def check_arguments(kernel, module):
    """Refuses a module whose arguments lie elsewhere than the contract has them."""
    found = module.arguments(indirect=kernel.argument_bytes > emit_glsl.MAX_PUSH_CONSTANT_BYTES)
    stated = [(arg.offset, arg.size) for arg in kernel.args]
    if found != stated:
        raise SpirvError(f"the module has its arguments at {found}, the contract at {stated}")


def link(contract, files, prefix, capabilities, float_controls=()):
    """The image of kernels in the contract's order. `files` maps kernel names to paths. Throws SpirvError, OSError."""
    known = {kernel.name for kernel in contract.kernels}
    for name in files:
        if name not in known:
            raise SpirvError(f"the contract has no kernel '{name}'")
    image = b""
    for kernel in contract.kernels:
        if kernel.name not in files:
            if kernel.required:
                raise SpirvError(f"kernel '{kernel.name}' is missing")
            continue
        try:
            image += _checked(kernel, files[kernel.name].read_bytes(), prefix, capabilities, float_controls)
        except SpirvError as error:
            raise SpirvError(f"kernel '{kernel.name}': {error}") from error
    return image


def _checked(kernel, data, prefix, capabilities, float_controls):
    modules = read_modules(data)
    if len(modules) != 1:
        raise SpirvError(f"{len(modules)} modules, expected 1")
    module = modules[0]
    check_arguments(kernel, module)
    module.check_arithmetic()
    for name in module.capabilities:
        if name not in capabilities:
            raise SpirvError(f"it needs the capability {name}, and this set may need {', '.join(sorted(capabilities))}")
    module.rename_entry_point(prefix + kernel.name)
    for name in float_controls:
        module.control_floats(name)
    module.strip()
    return module.data()


def _text(words):
    data = struct.pack(f"<{len(words)}I", *words)
    end = data.find(b"\0")
    if end < 0:
        raise SpirvError("a name has no end")
    return data[:end].decode("utf-8", errors="replace")


def _text_words(text):
    data = text.encode("utf-8") + b"\0"
    data += b"\0" * (-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contract", type=Path, required=True)
    parser.add_argument("--prefix", default="", help="before a kernel's name in the image")
    parser.add_argument("--capability", action="append", default=[], metavar="NAME", help="that a kernel may need")
    parser.add_argument("--float-control", action="append", default=[], choices=_FLOAT_CONTROLS,
                        help="that every kernel is to promise; its capability is allowed then")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("modules", nargs="+", metavar="KERNEL=FILE")
    options = parser.parse_args(arguments)
    if any("=" not in module for module in options.modules):
        parser.error("expected KERNEL=FILE")
    files = {name: Path(path) for name, path in (module.split("=", 1) for module in options.modules)}
    try:
        image = link(model.load(options.contract), files, options.prefix, set(options.capability), options.float_control)
    except (model.ContractError, SpirvError, OSError) as error:
        print(f"spirv.py: {error}", file=sys.stderr)
        return 1
    options.output.write_bytes(image)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
