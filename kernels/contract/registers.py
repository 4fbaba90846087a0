#!/usr/bin/env python3
"""docs/cuda-registers.md: what ptxas made of each kernel, from the manifest of a built kernel set, and whether the page in the
repository says the same. Spills are refused before that, when the manifest is written. Python's standard library only.

    registers.py write|check MANIFEST PAGE
"""

import json
import sys
from pathlib import Path

_HEAD = """\
# Registers of the CUDA kernels

What ptxas made of the kernels of the set {set}: registers per thread, on each target that the set has machine code for.
Static shared memory is in bytes; where targets differ, each amount stands there once. None spills, none uses local memory:
the build refuses both. `ninja kdart_cuda_registers` writes this page, and a test fails when a build differs from it.

Compiled with nvcc {nvcc}.

"""


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
        print("If that is meant, `ninja kdart_cuda_registers` brings the page up to date.", file=sys.stderr)
    return 1 if differences else 0


def machine_code(manifest):
    return [image for image in manifest["images"] if image["format"] == "cubin"]


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
            found[name, image["target"]] = str(kernel["registers"])
    return found


def render(manifest):
    columns = ["threads", "static shared"] + [image["target"] for image in machine_code(manifest)]
    found = figures(manifest)
    text = _HEAD.format(set=manifest["set"], nvcc=manifest["toolchain"]["nvcc"])
    text += "| kernel | " + " | ".join(columns) + " |\n" + "|---" * (len(columns) + 1) + "|\n"
    for kernel in manifest["kernels"]:
        text += f"| {kernel['name']} | " + " | ".join(found.get((kernel["name"], c), "-") for c in columns) + " |\n"
    return text


def read_page(text):
    """The page's figures, as figures() has a build's, and the nvcc that they are of."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    columns = rows[0][1:] if rows else []
    found = {(row[0], column): cell for row in rows[2:] for column, cell in zip(columns, row[1:]) if cell != "-"}
    nvcc = next((line.split()[-1].rstrip(".") for line in text.splitlines() if line.startswith("Compiled with nvcc")), "?")
    return found, nvcc


def compare(manifest, text):
    expected, nvcc = read_page(text)
    found = figures(manifest)
    lines = []
    for kernel, column in sorted(set(expected) | set(found)):
        before, now = expected.get((kernel, column), "nothing"), found.get((kernel, column), "nothing")
        if before != now:
            lines.append(f"kernel {kernel}, {column}: the build has {now}, the page {before}")
    if lines and nvcc != manifest["toolchain"]["nvcc"]:
        lines.append(f"the page is of nvcc {nvcc}, the build of {manifest['toolchain']['nvcc']}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
