#!/usr/bin/env python3
"""Generates everything that states a kernel's interface from a contract file. Python's standard library only.

  generate.py headers CONTRACT FOLDER   FOLDER/include/kdart/<set>_kernels.h   the library's argument structs
                                        FOLDER/kernels/<set>_kernels.cpp       its tables
                                        FOLDER/kernels/<set>_params.h          parameter lists for kernels/simt
                                        FOLDER/kernels/<set>_cpu_table.h       the table of a CPU image
  generate.py glsl CONTRACT FOLDER      FOLDER/kernels/vulkan/<kernel>_arguments.glsl, for kernels/vulkan
  generate.py docs CONTRACT FILE        the reference page
  generate.py check-docs CONTRACT FILE  fails when FILE is not what `docs` would write
"""

import argparse
import sys
from pathlib import Path

import emit_cpp
import emit_device
import emit_docs
import emit_glsl
import model


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, output in (("headers", "folder"), ("glsl", "folder"), ("docs", "file"), ("check-docs", "file")):
        command = commands.add_parser(name)
        command.add_argument("contract", type=Path)
        command.add_argument(output, type=Path)
    options = parser.parse_args(arguments)
    try:
        contract = model.load(options.contract)
        if options.command == "glsl":
            write_glsl(contract, options.folder)
            return 0
    except model.ContractError as error:
        print(f"generate.py: {error}", file=sys.stderr)
        return 1
    if options.command == "headers":
        write_headers(contract, options.folder)
    elif options.command == "docs":
        write(options.file, emit_docs.document(contract))
    elif not options.file.exists() or options.file.read_text(encoding="utf-8") != emit_docs.document(contract):
        print(f"generate.py: {options.file} is stale; run: {Path(__file__).name} docs {options.contract} {options.file}",
              file=sys.stderr)
        return 1
    return 0


def write_headers(contract, folder):
    write(folder / "include" / "kdart" / f"{contract.set}_kernels.h", emit_cpp.header(contract))
    write(folder / "kernels" / f"{contract.set}_kernels.cpp", emit_cpp.source(contract))
    write(folder / "kernels" / f"{contract.set}_params.h", emit_device.params(contract))
    write(folder / "kernels" / f"{contract.set}_cpu_table.h", emit_device.cpu_table(contract))


def write_glsl(contract, folder):
    for name, text in emit_glsl.includes(contract).items():
        write(folder / "kernels" / "vulkan" / f"{name}_arguments.glsl", text)


def write(path, text):
    """A file that says the same already stays as it is, so that nothing is built anew because of it."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
