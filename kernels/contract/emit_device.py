"""The contract for the kernels of kernels/simt: parameter lists, and the table that a CPU image exports."""

_POINTEES = {"bf16": "kdart_bf16", "f32": "float", "u32": "unsigned int"}
_SCALARS = {"u32": "unsigned int", "i32": "int", "u64": "unsigned long long", "f32": "float"}

_PARAMS = """\
// Generated from kernels/contract/{set}.json. Included by kernels/simt/dialect.h.
//
// A kernel is declared once, with separate parameters: an image then states the offset and size of each argument, and
// loaders compare them with the contract.
#pragma once

// NOLINTBEGIN(readability-identifier-naming): macro names end in the kernels' own names.

{byte_types}{macros}
// NOLINTEND(readability-identifier-naming)
"""

_CPU_TABLE = """\
// Generated from kernels/contract/{set}.json. Included last by the CPU image's source file, after the kernels.
#pragma once

// NOLINTBEGIN: C types at the boundary of the image, named after the kernels.

#include <stddef.h>

namespace {{

{entries}
const kdart_cpu_kernel kdart_cpu_kernels[] = {{
{rows}
}};

const kdart_cpu_image kdart_cpu_image_table = {{KDART_CPU_ABI_VERSION, {count}u, kdart_cpu_kernels}};

}}  // namespace

extern "C" __attribute__((visibility("default"))) const kdart_cpu_image* kdart_cpu_image_v1(void);
extern "C" const kdart_cpu_image* kdart_cpu_image_v1(void) {{ return &kdart_cpu_image_table; }}

// NOLINTEND
"""

_ENTRY = """\
struct kdart_args_{name} {{
{fields}
}};
{asserts}
const uint32_t kdart_offsets_{name}[] = {{{offsets}}};
const uint32_t kdart_sizes_{name}[] = {{{sizes}}};

void kdart_thread_{name}(const void* arguments, kdart_cpu_thread* self) {{
  const kdart_args_{name}& a = *static_cast<const kdart_args_{name}*>(arguments);
  kdart_kernel_{name}({passed}, self);
}}
"""

_BLOCK_ENTRY = """
void kdart_block_{name}(const void* arguments, kdart_cpu_thread* self) {{
  const kdart_args_{name}& a = *static_cast<const kdart_args_{name}*>(arguments);
  kdart_cpu_thread thread = *self;  // a local copy, so that the kernel's reads of it need no memory
  for (uint32_t z = 0; z < thread.block_dim[2]; ++z) {{
    for (uint32_t y = 0; y < thread.block_dim[1]; ++y) {{
      for (uint32_t x = 0; x < thread.block_dim[0]; ++x) {{
        thread.thread_idx[0] = x;
        thread.thread_idx[1] = y;
        thread.thread_idx[2] = z;
        kdart_kernel_{name}({passed}, &thread);
      }}
    }}
  }}
}}
"""


def params(contract):
    macros = []
    for kernel in contract.kernels:
        parameters = ", \\\n  ".join(_parameter(arg, " KDART_RESTRICT") for arg in kernel.args)
        macros.append(f"#define KDART_MAX_THREADS_{kernel.name} {kernel.max_threads}\n"
                      f"#define KDART_PARAMS_{kernel.name} \\\n  {parameters}\n")
    sizes = sorted({(arg.size, arg.align) for kernel in contract.kernels for arg in kernel.args if arg.type == "bytes"})
    byte_types = "".join(f"struct alignas({align}) kdart_bytes_{size}_{align} {{ unsigned char data[{size}]; }};\n"
                         for size, align in sizes)
    return _PARAMS.format(set=contract.set, byte_types=byte_types, macros="\n".join(macros))


def cpu_table(contract):
    return _CPU_TABLE.format(
        set=contract.set,
        entries="\n".join(_entry(kernel) for kernel in contract.kernels),
        rows="\n".join(_row(kernel) for kernel in contract.kernels),
        count=len(contract.kernels),
    )


def _parameter(arg, qualifier):
    if arg.is_ptr:
        const = "const " if arg.access == "in" else ""
        return f"{const}{_POINTEES[arg.element]}*{qualifier} {arg.name}"
    if arg.type == "bytes":
        return f"kdart_bytes_{arg.size}_{arg.align} {arg.name}"
    return f"{_SCALARS[arg.type]} {arg.name}"


def _entry(kernel):
    struct = f"kdart_args_{kernel.name}"
    text = _ENTRY.format(
        name=kernel.name,
        fields="\n".join(f"  {_parameter(arg, '')};" for arg in kernel.args),
        asserts="\n".join(f"static_assert(offsetof({struct}, {arg.name}) == {arg.offset} && "
                          f"sizeof({struct}::{arg.name}) == {arg.size});" for arg in kernel.args),
        offsets=", ".join(f"offsetof({struct}, {arg.name})" for arg in kernel.args),
        sizes=", ".join(f"sizeof({struct}::{arg.name})" for arg in kernel.args),
        passed=_passed(kernel),
    )
    return text if kernel.barriers else text + _BLOCK_ENTRY.format(name=kernel.name, passed=_passed(kernel))


def _passed(kernel):
    return ", ".join(f"a.{arg.name}" for arg in kernel.args)


def _row(kernel):
    block = "nullptr" if kernel.barriers else f"kdart_block_{kernel.name}"
    return (f'    {{"{kernel.name}", kdart_thread_{kernel.name}, {block}, {int(kernel.barriers)}u, 0u, '
            f"{len(kernel.args)}u, kdart_offsets_{kernel.name}, kdart_sizes_{kernel.name}}},")
