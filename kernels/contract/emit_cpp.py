"""The contract for the library: kdart/<set>_kernels.h with one struct per kernel, and the .cpp with the tables."""

FIELD_TYPES = {"ptr": "DevicePtr", "u32": "std::uint32_t", "i32": "std::int32_t", "u64": "std::uint64_t", "f32": "float"}

_HEADER = """\
// Generated from kernels/contract/{set}.json. The arguments of the kernels of the set "{set}": each struct is the
// argument block that its kernel expects. What the kernels compute stands in docs/kernels.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kdart/contract.h"
#include "kdart/export.h"
#include "kdart/types.h"

namespace kdart::kernels {{

// Every kernel of the set. Static data: valid for the life of the program, usable from any thread.
[[nodiscard]] KDART_API const Contract& {set}_contract();

{structs}
}}  // namespace kdart::kernels
"""

_STRUCT = """\
// {summary}{requires}
struct {struct} {{
{fields}

  [[nodiscard]] KDART_API static const ContractKernel& contract();
}};
static_assert(std::is_trivially_copyable_v<{struct}> && std::is_standard_layout_v<{struct}>);
static_assert(sizeof({struct}) >= {bytes} && sizeof({struct}) < {bytes} + alignof({struct}));
{asserts}
"""

_SOURCE = """\
// Generated from kernels/contract/{set}.json.
#include "kdart/{set}_kernels.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace kdart::kernels {{

namespace {{

// The contract's arithmetic: unsigned 64 bits, saturating; see kernels/contract/expression.py.
constexpr std::uint64_t kLimit = std::numeric_limits<std::uint64_t>::max();
[[maybe_unused]] constexpr std::uint64_t value(std::uint32_t x) {{ return x; }}
[[maybe_unused]] constexpr std::uint64_t value(std::uint64_t x) {{ return x; }}
[[maybe_unused]] constexpr std::uint64_t value(std::int32_t x) {{ return x > 0 ? static_cast<std::uint64_t>(x) : 0; }}
[[maybe_unused]] constexpr std::uint64_t add(std::uint64_t x, std::uint64_t y) {{ return x > kLimit - y ? kLimit : x + y; }}
[[maybe_unused]] constexpr std::uint64_t sub(std::uint64_t x, std::uint64_t y) {{ return x > y ? x - y : 0; }}
[[maybe_unused]] constexpr std::uint64_t mul(std::uint64_t x, std::uint64_t y) {{
  return y != 0 && x > kLimit / y ? kLimit : x * y;
}}
[[maybe_unused]] constexpr std::uint64_t div(std::uint64_t x, std::uint64_t y) {{ return y == 0 ? 0 : x / y; }}
[[maybe_unused]] constexpr std::uint64_t ceil_div(std::uint64_t x, std::uint64_t y) {{
  return y == 0 ? 0 : x / y + (x % y == 0 ? 0 : 1);
}}
[[maybe_unused]] constexpr std::uint64_t min(std::uint64_t x, std::uint64_t y) {{ return std::min(x, y); }}
[[maybe_unused]] constexpr std::uint64_t max(std::uint64_t x, std::uint64_t y) {{ return std::max(x, y); }}

// A kernel loops over what a grid axis of 65,535 blocks does not cover.
constexpr std::uint32_t grid_axis(std::uint64_t blocks) {{
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 65535));
}}
constexpr std::uint32_t to_u32(std::uint64_t x) {{
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(x, std::numeric_limits<std::uint32_t>::max()));
}}

template <class Args, std::size_t bytes>
Args read(const std::byte* arguments) {{
  Args args{{}};
  std::memcpy(static_cast<void*>(&args), arguments, bytes);  // the block's tail is not padded, the struct's is
  return args;
}}

{functions}
enum Index : std::size_t {{ {indices} }};

constexpr std::array<ContractKernel, {count}> kKernels{{{{
{kernels}
}}}};

constexpr Contract kContract{{"{set}", {version}, kKernels}};

}}  // namespace

const Contract& {set}_contract() {{ return kContract; }}

{contracts}

}}  // namespace kdart::kernels
"""

_KERNEL = """\
// --- {name}
constexpr std::array<ContractArg, {count}> {prefix}_args{{{{
{args}
}}}};

LaunchShape {prefix}_shape(const std::byte* arguments) {{
  [[maybe_unused]] const auto a = read<{struct}, {bytes}>(arguments);
  return {{.grid = {grid},
          .block = {block},
          .shared_bytes = to_u32({shared})}};
}}

void {prefix}_extents(const std::byte* arguments, std::uint64_t* elements) {{
  [[maybe_unused]] const auto a = read<{struct}, {bytes}>(arguments);
{extents}
}}
"""


def header(contract):
    structs = "\n".join(_struct(kernel) for kernel in contract.kernels)
    return _HEADER.format(set=contract.set, structs=structs)


def source(contract):
    return _SOURCE.format(
        set=contract.set,
        version=contract.version,
        functions="\n".join(_kernel(kernel) for kernel in contract.kernels),
        count=len(contract.kernels),
        indices=", ".join(f"index_{kernel.name}" for kernel in contract.kernels),
        kernels="\n".join(_table_row(kernel) for kernel in contract.kernels),
        contracts="\n".join(f"const ContractKernel& {kernel.struct}::contract() {{ return kKernels[index_{kernel.name}]; }}"
                            for kernel in contract.kernels),
    )


def wrap(text, prefix, width=118):
    """Breaks `text` into lines that begin with `prefix` (the first one without it)."""
    lines = [""]
    for word in text.split():
        if lines[-1] and len(prefix) + len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return f"\n{prefix}".join(lines)


def _struct(kernel):
    requires = f"\n// Requires: {wrap('; '.join(kernel.requires), '//   ')}." if kernel.requires else ""
    fields = "\n".join(f"  {_field(arg)};  // {_about(arg)}" for arg in kernel.args)
    asserts = "\n".join(f"static_assert(offsetof({kernel.struct}, {arg.name}) == {arg.offset});" for arg in kernel.args)
    return _STRUCT.format(summary=wrap(kernel.summary, "// "), requires=requires, struct=kernel.struct, fields=fields,
                          bytes=kernel.argument_bytes, asserts=asserts)


def _field(arg):
    if arg.type == "bytes":
        return f"alignas({arg.align}) std::array<std::byte, {arg.size}> {arg.name}"
    return f"{FIELD_TYPES[arg.type]} {arg.name}"


def _about(arg):
    if not arg.is_ptr:
        return arg.about
    nullable = ", may be null" if arg.nullable else ""
    return f"{arg.element}, {arg.access}, aligned to {arg.align}{nullable}: {arg.about}"


def _kernel(kernel):
    prefix = kernel.name
    args = "\n".join(
        f'    {{"{arg.name}", ArgKind::{arg.type}, {arg.offset}, {arg.size}, "{arg.element}", ArgAccess::{arg.access}, '
        f'{_bool(arg.nullable)}, {arg.align if arg.is_ptr else 0}, "{arg.extent.text if arg.extent else ""}"}},'
        for arg in kernel.args)
    extents = "\n".join(f"  elements[{index}] = {arg.extent.cpp() if arg.extent else '0'};"
                        for index, arg in enumerate(kernel.args))
    return _KERNEL.format(
        name=kernel.name, prefix=prefix, count=len(kernel.args), args=args, struct=kernel.struct,
        bytes=kernel.argument_bytes, grid=_dim(kernel.grid, "grid_axis"), block=_dim(kernel.block, "to_u32"),
        shared=kernel.shared.cpp(), extents=extents)


def _dim(axes, conversion):
    values = [f"{conversion}({axis.cpp()})" for axis in axes] + ["1"] * (3 - len(axes))
    return "{" + ", ".join(values) + "}"


def _table_row(kernel):
    summary = kernel.summary.replace("\\", "\\\\").replace('"', '\\"')
    return (f'    {{"{kernel.name}", {_bool(kernel.required)}, {_bool(kernel.barriers)}, {kernel.name}_args, '
            f'{kernel.argument_bytes},\n     "{summary}",\n     {kernel.name}_shape, {kernel.name}_extents}},')


def _bool(value):
    return "true" if value else "false"
