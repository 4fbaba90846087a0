"""What GPU compilers say of the kernels in an image. Spills to memory are an error: a kernel that spills is written anew."""

import re
from dataclasses import dataclass


class ReportError(ValueError):
    """A compiler's report that cannot be read, or that says something is wrong."""


@dataclass
class Resources:
    registers: int | None  # where the compiler says
    static_shared_bytes: int = 0
    arguments: list[tuple[int, int]] | None = None  # (offset, size), where the report has them


def read_ptxas(text):
    """Symbol -> Resources from what `nvcc -Xptxas -v` prints."""
    found = {}
    symbol = None
    for line in text.splitlines():
        if match := re.search(r"Compiling entry function '(\w+)'", line):
            symbol = match[1]
        elif match := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            if any(int(bytes_) for bytes_ in match.groups()):
                raise ReportError(f"{symbol}: {line.strip()}; expected none")
        elif match := re.search(r"Used (\d+) registers", line):
            if symbol is None:
                raise ReportError(f"registers of no kernel: {line.strip()}")
            shared = re.search(r"(\d+) bytes smem", line)
            found[symbol] = Resources(int(match[1]), int(shared[1]) if shared else 0)
            symbol = None
    return found


def read_ptx(path, text, target):
    """Symbol -> Resources, and the ISA version (10 * major + minor), from PTX. It says nothing of registers or spills."""
    version = re.search(r"^\.version (\d+)\.(\d+)$", text, flags=re.MULTILINE)
    built_for = re.search(r"^\.target (\w+)", text, flags=re.MULTILINE)
    if not version or not built_for:
        raise ReportError(f"{path}: it is no PTX: .version and .target are not there")
    if built_for[1].removeprefix("sm_") != target.removeprefix("compute_"):
        raise ReportError(f"{path}: it is for {built_for[1]}, and is said to be for {target}")
    found = {}
    for symbol, parameters in re.findall(r"^\.visible \.entry (\w+)\(([^)]*)\)", text, flags=re.MULTILINE):
        arguments, end = [], 0
        for align, bits, count in re.findall(r"\.param (?:\.align (\d+) )?\.[a-z](\d+) \w+(?:\[(\d+)\])?", parameters):
            size = int(bits) // 8 * int(count or 1)
            align = int(align or size)
            offset = (end + align - 1) // align * align
            arguments.append((offset, size))
            end = offset + size
        found[symbol] = Resources(None, 0, arguments)
    return found, 10 * int(version[1]) + int(version[2])


def read_amdgpu_notes(text):
    """Symbol -> Resources from what `llvm-readelf --notes` prints of a code object."""
    found = {}
    kernels = re.split(r"^\S", text.partition("amdhsa.kernels:")[2], maxsplit=1, flags=re.MULTILINE)[0]
    for block in re.split(r"^  - ", kernels, flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^(?:    )?\.(\w+): +(\S+)$", block, flags=re.MULTILINE))
        symbol = fields.get("name", "?")
        try:
            scratch, spilled = int(fields["private_segment_fixed_size"]), int(fields["vgpr_spill_count"])
            resources = Resources(int(fields["vgpr_count"]), int(fields["group_segment_fixed_size"]), [])
        except KeyError as error:
            raise ReportError(f"{symbol}: the notes lack {error}") from error
        if scratch or spilled:
            raise ReportError(f"{symbol}: {scratch} bytes of scratch and {spilled} spilled registers; expected none")
        for argument in re.split(r"^      - ", block, flags=re.MULTILINE)[1:]:
            parts = dict(re.findall(r"\.(\w+): +(\S+)", argument))
            if not parts["value_kind"].startswith("hidden_"):
                resources.arguments.append((int(parts["offset"]), int(parts["size"])))
        found[symbol] = resources
    return found


READERS = {"cubin": read_ptxas, "code_object": read_amdgpu_notes}
