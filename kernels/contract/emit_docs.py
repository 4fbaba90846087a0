"""docs/kernels.md."""

_INTRO = """\
<!-- Generated from kernels/contract/{set}.json by kernels/contract/generate.py docs. Do not edit. -->
# Kernels of the set `{set}`

Contract version {version}. Arguments lie in a block at their natural alignment, in the order given; the columns `offset`
and `bytes` say where. Extents and strides count elements. Buffers that a kernel writes overlap no other argument. A
launch takes grid, block and dynamic shared memory from the formulas here; each grid axis is at most 65,535, and a kernel
loops over what that leaves. In formulas `/` rounds down, `ceil_div` rounds up, and nothing is negative.

The order in which a kernel adds is part of what it promises. Every multiply and add rounds by itself; exp, log1p and
sigmoid are the kernels' own, so that CPU, CUDA and HIP give the same bits.

| kernel | required | barriers | argument bytes |
|---|---|---|---|
{rows}
"""

_KERNEL = """
## {name}

{summary}

{requires}| argument | type | offset | bytes | what it holds |
|---|---|---|---|---|
{args}

| grid | block | dynamic shared memory, bytes | threads per block |
|---|---|---|---|
| {grid} | {block} | `{shared}` | {threads} |
{tunables}"""


def document(contract):
    rows = "\n".join(f"| [{kernel.name}](#{kernel.name}) | {_yes(kernel.required)} | {_yes(kernel.barriers)} | "
                     f"{kernel.argument_bytes} |" for kernel in contract.kernels)
    text = _INTRO.format(set=contract.set, version=contract.version, rows=rows)
    return text + "".join(_kernel(kernel) for kernel in contract.kernels)


def _kernel(kernel):
    requires = "".join(f"* {text}\n" for text in kernel.requires)
    tunables = "".join(f"\nTunable: `{name}`, default {value}; the manifest of a kernel set may state another.\n"
                       for name, value in kernel.tunables.items())
    return _KERNEL.format(
        name=kernel.name,
        summary=kernel.summary,
        requires=f"Requires:\n\n{requires}\n" if requires else "",
        args="\n".join(_arg(arg) for arg in kernel.args),
        grid=" x ".join(f"`{axis.text}`" for axis in kernel.grid),
        block=" x ".join(f"`{axis.text}`" for axis in kernel.block),
        shared=kernel.shared.text,
        threads=_threads(kernel),
        tunables=tunables,
    )


def _arg(arg):
    if not arg.is_ptr:
        return f"| `{arg.name}` | {arg.type} | {arg.offset} | {arg.size} | {arg.about} |"
    nullable = ", may be null" if arg.nullable else ""
    return (f"| `{arg.name}` | {arg.element} pointer, {arg.access}{nullable} | {arg.offset} | {arg.size} | {arg.about}; "
            f"`{arg.extent.text}` elements, aligned to {arg.align} bytes |")


def _threads(kernel):
    if kernel.min_threads == kernel.max_threads:
        return f"{kernel.max_threads}"
    return f"{kernel.min_threads} to {kernel.max_threads}" if kernel.min_threads else f"at most {kernel.max_threads}"


def _yes(value):
    return "yes" if value else "no"
