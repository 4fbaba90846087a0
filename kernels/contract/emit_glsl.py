"""The contract for the kernels of kernels/vulkan: per kernel an include with its arguments and what they point to."""

import model

MAX_PUSH_CONSTANT_BYTES = 128  # what every Vulkan device has

_SCALARS = {"u32": "uint", "i32": "int", "u64": "uint64_t", "f32": "float"}
# element -> (how it is stored, what a load gives and a store takes). A bf16 is passed on as the 16 bits that it is.
_ELEMENTS = {"bf16": ("uint16_t", "uint"), "f32": ("float", "float"), "u32": ("uint", "uint")}
# `restrict` only where all accesses are reads or all are writes: every access makes a reference of its own.
_QUALIFIERS = {"in": "restrict readonly ", "out": "restrict writeonly ", "inout": ""}
_WORDS_BYTES = 16

_FILE = """\
// Generated from kernels/contract/{set}.json. The arguments of {name}, for kernels/vulkan/{name}.comp.
//
// `args` holds them. What a pointer p points to is reached through load_p(i) and store_p(i, value), as its access
// allows; i counts elements and has 64 bits. A bf16 is passed as its 16 bits. load_p_words(i) gives the eight bf16 from
// i on, i a multiple of 8; has_p() says that a nullable p is not null.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
{shared}const uint kdart_min_threads = {min_threads};
const uint kdart_max_threads = {max_threads};

{references}
{arguments}
{accessors}"""

_SHARED = """\
layout(constant_id = 3) const uint kdart_shared_words = 1;  // the dynamic shared memory of the launch
shared float kdart_shared[kdart_shared_words];
"""

_REFERENCE = ("layout(buffer_reference, std430, buffer_reference_align = {align}) "
              "{qualifiers}buffer {name} {{ {type} x; }};")

_DIRECT = """\
layout(push_constant, std430) uniform KdartArguments {{
{members}
}} args;
"""

_INDIRECT = """\
// {bytes} bytes: more than push constants hold, so these hold the address of the block.
layout(buffer_reference, std430, buffer_reference_align = {align}) restrict readonly buffer KdartArguments {{
{members}
}};
layout(push_constant, std430) uniform KdartArgumentsAddress {{ layout(offset = 0) KdartArguments args; }};
"""


def includes(contract):
    """Kernel name -> text of its include. Throws ContractError."""
    return {kernel.name: _include(contract, kernel) for kernel in contract.kernels}


def _include(contract, kernel):
    references = {}
    accessors = [_accessors(arg, references) for arg in kernel.args if arg.is_ptr]
    # What the block's members point to comes first, so that the block can name it.
    members = "\n".join(f"  layout(offset = {arg.offset}) {_member(kernel, arg, references)};" for arg in kernel.args)
    return _FILE.format(
        set=contract.set,
        name=kernel.name,
        shared=_SHARED if kernel.shared.text != "0" else "",
        min_threads=kernel.min_threads,
        max_threads=kernel.max_threads,
        references="\n".join(references.values()),
        arguments=_arguments(kernel, members),
        accessors="\n".join(accessors),
    )


def _arguments(kernel, members):
    if kernel.argument_bytes <= MAX_PUSH_CONSTANT_BYTES:
        return _DIRECT.format(members=members)
    align = max(arg.align if arg.type == "bytes" else arg.size for arg in kernel.args)
    return _INDIRECT.format(bytes=kernel.argument_bytes, align=align, members=members)


def _member(kernel, arg, references):
    if arg.is_ptr:
        # Named apart from the scalars: `in` and `out` are words of GLSL.
        return f"{_reference(references, arg.access, arg.element, arg.align)} p_{arg.name}"
    if arg.type == "bytes":
        if arg.size % 4 or arg.align < 4:
            raise model.ContractError(f"kernel '{kernel.name}', argument '{arg.name}': {arg.size} bytes aligned to "
                                      f"{arg.align}; GLSL passes whole words")
        return f"uint {arg.name}[{arg.size // 4}]"
    return f"{_SCALARS[arg.type]} {arg.name}"


def _accessors(arg, references):
    size = model.ELEMENTS[arg.element]
    storage, value = _ELEMENTS[arg.element]
    reference = _reference(references, arg.access, arg.element, size)  # an element is aligned to itself alone
    at = f"{reference}(uint64_t(args.p_{arg.name}) + i * {size}ul).x"
    lines = []
    if arg.access != "out":
        lines.append(f"{value} load_{arg.name}(uint64_t i) {{ return {value}({at}); }}")
        if arg.element == "bf16" and arg.align >= _WORDS_BYTES:
            words = _reference(references, arg.access, "words", _WORDS_BYTES)
            lines.append(f"uvec4 load_{arg.name}_words(uint64_t i) "
                         f"{{ return {words}(uint64_t(args.p_{arg.name}) + i * {size}ul).x; }}")
    if arg.access != "in":
        lines.append(f"void store_{arg.name}(uint64_t i, {value} x) {{ {at} = {storage}(x); }}")
    if arg.nullable:
        lines.append(f"bool has_{arg.name}() {{ return uint64_t(args.p_{arg.name}) != 0ul; }}")
    return "\n".join(lines)


def _reference(references, access, element, align):
    """The name of a reference type, which is added to `references` when it is new."""
    name = f"Kdart{access.capitalize()}{element.capitalize()}Align{align}"
    stored = "uvec4" if element == "words" else _ELEMENTS[element][0]
    references.setdefault(name, _REFERENCE.format(align=align, qualifiers=_QUALIFIERS[access], name=name, type=stored))
    return name
