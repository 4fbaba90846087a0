#!/usr/bin/env python3
"""docs/cuda-registers.md and docs/hip-registers.md: what the compiler made of each kernel, from the manifest of a built kernel set,
and whether the page in the repository says the same. Spills are refused before that, when the manifest is written. Python's
standard library only.

    registers.py write|check MANIFEST PAGE
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_CUDA = """\
# Registers of the CUDA kernels

What ptxas made of the kernels of the set {set}: registers per thread, on each target that the set has machine code for.
Static shared memory is in bytes; where targets differ, each amount stands there once. None spills, none uses local memory:
the build refuses both. `ninja kdart_cuda_registers` writes this page, and a test fails when a build differs from it.

Compiled with nvcc {version}.

"""

_HIP = """\
# Registers of the HIP kernels

What clang made of the kernels of the set {set}: vector registers per thread on each target, accumulation registers counted in, and the
waves per SIMD that they leave room for. Static shared memory is in bytes; where targets differ, each amount stands there once. None
spills registers of either kind, none uses scratch: the build refuses that. `ninja kdart_hip_registers` writes this page, and a test
fails when a build differs from it.

Compiled with clang {version}.

"""


def waves(registers, target):
    """Waves per SIMD that so many vector registers leave room for: registers of the file that a lane has, the number in which
    they are given out, and the most waves there can be, as LLVM's AMDGPU backend has them (AMDGPUBaseInfo: getTotalNumVGPRs,
    getVGPRAllocGranule, getMaxWavesPerEU). For waves of the size that clang compiles for."""
    if target in ("gfx90a", "gfx942", "gfx950"):
        file, granule, most = 512, 8, 8
    elif target.startswith("gfx9"):
        file, granule, most = 256, 4, 10
    elif target.startswith("gfx103"):
        file, granule, most = 1024, 16, 16
    elif target in ("gfx1100", "gfx1101", "gfx1151", "gfx1200", "gfx1201"):
        file, granule, most = 1536, 24, 16
    else:
        raise ValueError(f"the register file of {target} is not known here")
    taken = -(-max(registers, 1) // granule) * granule
    return min(max(file // taken, 1), most)


@dataclass
class Style:
    head: str
    compiler: str
    form: str  # of the images that have machine code
    target: str  # of ninja, that writes the page
    cell: Callable[[int, str], str]  # what stands for so many registers on a target


STYLES = {
    "cuda": Style(_CUDA, "nvcc", "cubin", "kdart_cuda_registers", lambda registers, target: str(registers)),
    "hip": Style(_HIP, "clang", "code_object", "kdart_hip_registers",
                 lambda registers, target: f"{registers} ({waves(registers, target)})"),
}


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("write", "check"):
        print(__doc__, file=sys.stderr)
        return 2
    manifest, page = json.loads(Path(arguments[1]).read_text(encoding="utf-8")), Path(arguments[2])
    if arguments[0] == "write":
        page.write_text(render(manifest), encoding="utf-8")
        return 0
    differences = compare(manifest, page.read_text(encoding="utf-8"))
    for line in differences:
        print(f"{page}: {line}", file=sys.stderr)
    if differences:
        print(f"If that is meant, `ninja {style_of(manifest).target}` brings the page up to date.", file=sys.stderr)
    return 1 if differences else 0


def style_of(manifest):
    return STYLES[manifest["backend"]]


def machine_code(manifest):
    return [image for image in manifest["images"] if image["format"] == style_of(manifest).form]


def figures(manifest):
    """(kernel, column) -> what the build says."""
    found = {}
    for image in machine_code(manifest):
        for kernel in image["kernels"]:
            name = kernel["name"]
            found[name, "threads"] = str(kernel["max_threads"])
            shared = str(kernel["static_shared_bytes"])
            if shared not in found.setdefault((name, "static shared"), shared).split("/"):
                found[name, "static shared"] += f"/{shared}"
            found[name, image["target"]] = style_of(manifest).cell(kernel["registers"], image["target"])
    return found


def render(manifest):
    columns = ["threads", "static shared"] + [image["target"] for image in machine_code(manifest)]
    found = figures(manifest)
    style = style_of(manifest)
    text = style.head.format(set=manifest["set"], version=manifest["toolchain"][style.compiler])
    text += "| kernel | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|\n"
    for kernel in manifest["kernels"]:
        text += f"| {kernel['name']} | " + " | ".join(found.get((kernel["name"], c), "-") for c in columns) + " |\n"
    return text


def read_page(text):
    """The page's figures, as figures() has a build's, and the compiler's version that they are of."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    columns = rows[0][1:] if rows else []
    found = {(row[0], column): cell for row in rows[2:] for column, cell in zip(columns, row[1:]) if cell != "-"}
    version = next((line.split()[-1].rstrip(".") for line in text.splitlines() if line.startswith("Compiled with")), "?")
    return found, version


def compare(manifest, text):
    expected, version = read_page(text)
    found = figures(manifest)
    lines = []
    for kernel, column in sorted(set(expected) | set(found)):
        before, now = expected.get((kernel, column), "nothing"), found.get((kernel, column), "nothing")
        if before != now:
            lines.append(f"kernel {kernel}, {column}: the build has {now}, the page {before}")
    compiler = style_of(manifest).compiler
    if lines and version != manifest["toolchain"][compiler]:
        lines.append(f"the page is of {compiler} {version}, the build of {manifest['toolchain'][compiler]}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
