#!/usr/bin/env python3
"""Writes the manifest of a kernel set: what its images hold, as core/include/kdart/kernel_set.h describes it.

The images lie in the manifest's folder. An image of a GPU comes with its compiler's report, from which registers and
static shared memory are taken and in which a spill is an error; SPIR-V says itself what it needs. Python's standard
library only.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

import model
import reports
import spirv

SCHEMA = 1
FORMATS = ("elf_shared", "cubin", "ptx", "code_object", "spirv")


class ManifestError(ValueError):
    """Images and contract that do not go together."""


def main(arguments):
    options = parse(arguments)
    try:
        contract = model.load(options.contract)
        tunables = read_tunables(contract, options.tunable)
        images = [describe_image(contract, options, image, tunables) for image in options.image]
    except (model.ContractError, reports.ReportError, spirv.SpirvError, ManifestError, OSError) as error:
        print(f"manifest.py: {error}", file=sys.stderr)
        return 1
    manifest = {
        "schema": SCHEMA,
        "set": contract.set,
        "version": options.version,
        "backend": options.backend,
        "toolchain": dict(tool.split("=", 1) for tool in options.tool),
        "kernels": [describe_kernel(kernel) for kernel in contract.kernels],
        "images": images,
    }
    options.output.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    return 0


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contract", type=Path, required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--version", required=True, help="of the set")
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=VERSION")
    parser.add_argument("--image", action="append", default=[], nargs="+", metavar="FILE TARGET FORMAT [REPORT]")
    parser.add_argument("--tunable", action="append", default=[], nargs=4, metavar=("TARGET", "KERNEL", "NAME", "VALUE"))
    parser.add_argument("--symbol-prefix", default="", help="before a kernel's name in an image")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    for image in options.image:
        if len(image) not in (3, 4) or image[2] not in FORMATS:
            parser.error(f"--image {' '.join(image)}: expected FILE TARGET FORMAT [REPORT], FORMAT one of {', '.join(FORMATS)}")
    for tool in options.tool:
        if "=" not in tool:
            parser.error(f"--tool {tool}: expected NAME=VERSION")
    return options


def read_tunables(contract, entries):
    """(target, kernel, tunable) -> value."""
    known = {(kernel.name, tunable) for kernel in contract.kernels for tunable in kernel.tunables}
    values = {}
    for target, kernel, tunable, value in entries:
        if (kernel, tunable) not in known:
            raise ManifestError(f"kernel '{kernel}' has no tunable '{tunable}'")
        if not value.isdigit() or int(value) == 0:
            raise ManifestError(f"kernel '{kernel}', tunable '{tunable}': '{value}', expected a positive number")
        values[target, kernel, tunable] = int(value)
    return values


def describe_kernel(kernel):
    args = [{"name": arg.name, "kind": arg.type, "offset": arg.offset, "size": arg.size} for arg in kernel.args]
    return {"name": kernel.name, "args": args, "argument_bytes": kernel.argument_bytes}


def describe_image(contract, options, image, tunables):
    path, target, form = Path(image[0]), image[1], image[2]
    if path.resolve().parent != options.output.resolve().parent:
        raise ManifestError(f"{path} does not lie in the manifest's folder, {options.output.resolve().parent}")
    data = path.read_bytes()
    entry = {"file": path.name, "target": target, "format": form}
    resources = {}
    if form == "spirv":
        resources, entry["capabilities"] = read_spirv(contract, options.symbol_prefix, path, target, data)
    if form == "ptx":
        resources, entry["ptx_isa"] = reports.read_ptx(path, data.decode("ascii"), target)
    if len(image) == 4:
        if form not in reports.READERS:
            raise ManifestError(f"{path}: no report is read for a {form} image")
        resources = reports.READERS[form](Path(image[3]).read_text(encoding="utf-8"), target)
    elif form in reports.READERS:
        raise ManifestError(f"{path}: a {form} image needs its compiler's report")
    kernels = []
    for kernel in contract.kernels:
        own = {name: tunables.get((target, kernel.name, name), value) for name, value in kernel.tunables.items()}
        symbol = options.symbol_prefix + kernel.name
        if form != "elf_shared" and symbol not in resources:
            if kernel.required:
                raise ManifestError(f"{path}: the image has no kernel '{symbol}'")
            continue
        kernels.append(describe_image_kernel(kernel, symbol, own, resources.get(symbol)))
        if form == "code_object":
            check_shared_memory(kernel, kernels[-1])
    return entry | {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "kernels": kernels}


def read_spirv(contract, prefix, path, target, data):
    """Symbol -> Resources, and the capabilities that the modules of an image need."""
    kernels = {prefix + kernel.name: kernel for kernel in contract.kernels}
    resources = {}
    capabilities = set()
    for module in spirv.read_modules(data):
        symbol = module.entry_point
        if symbol not in kernels or symbol in resources:
            raise ManifestError(f"{path}: an unknown kernel, or one that is there twice, '{symbol}'")
        if module.version != target:
            raise ManifestError(f"{path}: '{symbol}' is {module.version}, and the image is said to be {target}")
        spirv.check_arguments(kernels[symbol], module)
        resources[symbol] = reports.Resources(None, module.static_shared_bytes)
        capabilities.update(module.capabilities)
    return resources, sorted(capabilities)


# The most shared memory that a block of an AMD GPU may have, and the largest shapes for which kernels are launched: what kda.md
# calls them, and the names under which formulas know them.
AMD_SHARED_BYTES = 64 << 10
LARGEST = {"key_dim": 128, "value_dim": 128, "head_dim": 128, "chunk": 32, "m": 16}


def check_shared_memory(kernel, entry):
    """Static and dynamic shared memory of the largest launch are within what an AMD GPU has."""
    try:
        dynamic = kernel.shared.evaluate({**LARGEST, **entry.get("tunables", {})})
    except KeyError:
        return  # it goes by what the caller alone knows, and is checked at each launch
    total = entry["static_shared_bytes"] + dynamic
    if total > AMD_SHARED_BYTES:
        raise ManifestError(f"kernel '{kernel.name}': {total} bytes of shared memory in its largest launch, an AMD GPU has "
                            f"{AMD_SHARED_BYTES}")


def describe_image_kernel(kernel, symbol, tunables, resources):
    entry = {"name": kernel.name, "symbol": symbol, "static_shared_bytes": 0, "max_threads": kernel.max_threads}
    if kernel.min_threads:
        entry["min_threads"] = kernel.min_threads
    if resources:
        stated = [(arg.offset, arg.size) for arg in kernel.args]
        if resources.arguments is not None and resources.arguments != stated:
            raise ManifestError(f"kernel '{kernel.name}': the image has its arguments at {resources.arguments}, "
                                f"the contract at {stated}")
        if resources.max_threads is not None and resources.max_threads < kernel.max_threads:
            raise ManifestError(f"kernel '{kernel.name}': the image takes blocks of {resources.max_threads} threads, the "
                                f"contract has {kernel.max_threads}")
        entry["static_shared_bytes"] = resources.static_shared_bytes
        if resources.registers is not None:
            entry["registers"] = resources.registers
    if tunables:
        entry["tunables"] = tunables
    return entry


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
