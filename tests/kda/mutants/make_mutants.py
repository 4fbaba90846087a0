#!/usr/bin/env python3
"""Makes kernel sets that are wrong in one known way each, to show that the tests notice. Python's standard library only.

  make_mutants.py names                  the mutants, one a line; "unmutated" is the same sources, unchanged
  make_mutants.py make NAME --output FOLDER ..  a kernel-set folder for the CPU: manifest.json and one x86-64 image

A mutant is the sources of kernels/simt with texts replaced: exact but for where lines break. A text that is not found as
often as stated is an error: a mutant that changes nothing would test nothing.
"""

import argparse
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Edit:
    file: str
    old: str
    new: str
    count: int = 1


# Where a mistake concerns the recurrence of decode and that of prefill, the mutant makes it in both.
MUTANTS = {
    "unmutated": [],
    "decay_after_update": [
        Edit("recurrent.h",
             "const float s = column[static_cast<u64>(c) * stride] * decay[c];",
             "const float s = column[static_cast<u64>(c) * stride];"),
        Edit("recurrent.h",
             "const float s = column[static_cast<u64>(c) * stride] + k[c] * d;",
             "const float s = (column[static_cast<u64>(c) * stride] + k[c] * d) * decay[c];"),
        # The cumulative gate of a token without that token's own.
        Edit("chunk.h",
             "sum = sum + (i < rows.valid ? at.gate[rows.at(i) + c] : 0.0f); cumulative[i * pitch + c] = sum; "
             "at.gc[i * pitch + c] = sum;",
             "cumulative[i * pitch + c] = sum; at.gc[i * pitch + c] = sum; "
             "sum = sum + (i < rows.valid ? at.gate[rows.at(i) + c] : 0.0f);"),
    ],
    "decay_per_head": [
        Edit("recurrent.h", "= exp(gate[c]);", "= exp(gate[0]);"),
        Edit("chunk.h", "at.gate[rows.at(i) + c]", "at.gate[rows.at(i)]"),
    ],
    "silu_in_o_norm": [
        Edit("norm.h", "normalised * sigmoid(widen(", "normalised * silu(widen("),
    ],
    "l2_eps_outside_root": [
        Edit("conv.h", "square_root(sum + eps)", "square_root(sum) + eps"),
    ],
    "norm_eps_outside_root": [
        Edit("norm.h", "square_root(sum / static_cast<float>(head_dim) + eps)",
             "square_root(sum / static_cast<float>(head_dim)) + eps"),
    ],
    "l2_eps_1e-5": [
        Edit("conv.h", "square_root(sum + eps)", "square_root(sum + 10.0f * eps)"),
    ],
    "beta_left_out": [
        Edit("recurrent.h", "const float d = beta * (v - seen);", "const float d = v - seen;"),
        Edit("chunk.h", "i < betas.valid ? at.beta[betas.at(i)] : 0.0f", "i < betas.valid ? 1.0f : 0.0f"),
    ],
    "state_transposed": [
        Edit("recurrent.h", "step(matrix + value, i,", "step(matrix + value * at.key_dim, i,"),
        Edit("recurrent.h", "step_column(column, value_dim,", "step_column(column, 1,"),
        Edit("recurrent.h", "matrix[static_cast<u64>(c) * value_dim]", "matrix[c]", 2),
        Edit("chunk.h", "state[static_cast<u64>(c) * value_dim + column]",
             "state[static_cast<u64>(column) * key_dim + c]", 3),
    ],
    "silu_rounded_before_l2": [
        Edit("conv.h", "= silu(sum);", "= widen(round_to_bf16(silu(sum)));", 2),
    ],
    "core_rounded": [
        Edit("recurrent.h", "= step(matrix + value, i, v[value], beta) * at.scale;",
             "= widen(round_to_bf16(step(matrix + value, i, v[value], beta) * at.scale));"),
        Edit("chunk.h", "= scale * (from_q.get(i) + inside);",
             "= widen(round_to_bf16(scale * (from_q.get(i) + inside)));"),
    ],
    "gate_rounded": [
        Edit("gate.h", "= raise_to_floor(log_decay);", "= widen(round_to_bf16(raise_to_floor(log_decay)));"),
    ],
    "pads_multiplied_away": [
        Edit("chunk.h", "(i < rows.valid ? at.gate[rows.at(i) + c] : 0.0f)",
             "at.gate[rows.at(i) + c] * (i < rows.valid ? 1.0f : 0.0f)"),
        Edit("chunk.h", "i < rows.valid ? betas_here[i] * at.v[rows.at(i) + c] : 0.0f",
             "betas_here[i] * at.v[rows.at(i) + c] * (i < rows.valid ? 1.0f : 0.0f)"),
        Edit("chunk.h", "i < rows.valid ? at.k[rows.at(i) + c] * exp(last[c] - at.gc[i * pitch + c]) : 0.0f",
             "at.k[rows.at(i) + c] * exp(last[c] - at.gc[i * pitch + c]) * (i < rows.valid ? 1.0f : 0.0f)"),
    ],
}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("names")
    make = commands.add_parser("make")
    make.add_argument("name", choices=MUTANTS)
    make.add_argument("--kernels", type=Path, required=True, help="the folder kernels/ of the sources")
    make.add_argument("--generated", type=Path, required=True, help="the folder that holds kernels/kda_params.h")
    make.add_argument("--output", type=Path, required=True, help="becomes the kernel-set folder")
    make.add_argument("compiler", nargs="+", help="the compiler and its options, after --")
    options = parser.parse_args(arguments)
    if options.command == "names":
        print("\n".join(MUTANTS))
        return 0
    try:
        make_set(options)
    except (LookupError, OSError, subprocess.CalledProcessError) as error:
        print(f"make_mutants.py: {options.name}: {error}", file=sys.stderr)
        return 1
    return 0


def make_set(options):
    source = options.output / "source"
    simt = source / "kernels" / "simt"
    shutil.rmtree(options.output, ignore_errors=True)
    simt.parent.mkdir(parents=True)
    shutil.copytree(options.kernels / "simt", simt)
    for edit in MUTANTS[options.name]:
        apply(simt, edit)

    image = options.output / "kda.x86-64.so"
    subprocess.run([*options.compiler, f"-I{source}", f"-I{options.generated}", "-c", str(simt / "kda.cpp"), "-o",
                    str(source / "kda.o")], check=True)
    link = [argument for argument in options.compiler if not argument.startswith("-O")]
    subprocess.run([*link, "-shared", str(source / "kda.o"), "-o", str(image)], check=True)
    contract = options.kernels / "contract"
    subprocess.run([sys.executable, "-B", str(contract / "manifest.py"), "--contract", str(contract / "kda.json"),
                    "--backend", "cpu", "--version", f"0-{options.name}", "--image", str(image), "x86-64", "elf_shared",
                    "--output", str(options.output / "manifest.json")], check=True)


def apply(simt, edit):
    path = simt / edit.file
    text = path.read_text(encoding="utf-8")
    mutated, found = re.subn(r"\s+".join(map(re.escape, edit.old.split())), lambda _: edit.new, text)
    if found != edit.count:
        raise LookupError(f"{edit.file}: {found} times, expected {edit.count}: {edit.old!r}")
    path.write_text(mutated, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
