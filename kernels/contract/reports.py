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
    max_threads: int | None = None  # per block, where the report has it


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


def wave_size(target):
    """Threads of a wave, as clang compiles for an AMD processor: 64 up to gfx9, 32 from gfx10 on."""
    return 64 if re.match(r"gfx[6-9]", target) else 32


def read_amdgpu_notes(text, target):
    """Symbol -> Resources from what `llvm-readelf --notes` prints of a code object for this target."""
    built_for = re.search(r"^amdhsa\.target: +\S*--(gfx\S+)$", text, flags=re.MULTILINE)
    if not built_for or built_for[1] != target:
        raise ReportError(f"the code object is for {built_for[1] if built_for else 'nothing'}, and is said to be for {target}")
    found = {}
    kernels = re.split(r"^\S", text.partition("amdhsa.kernels:")[2], maxsplit=1, flags=re.MULTILINE)[0]
    for block in re.split(r"^  - ", kernels, flags=re.MULTILINE)[1:]:
        fields = dict(re.findall(r"^(?:    )?\.(\w+): +(\S+)$", block, flags=re.MULTILINE))
        symbol = fields.get("name", "?")
        try:
            found[symbol] = _amdgpu_kernel(symbol, fields, wave_size(target))
            argument_bytes = int(fields["kernarg_segment_size"])
        except KeyError as error:
            raise ReportError(f"{symbol}: the notes lack {error}") from error
        for argument in re.split(r"^      - ", block, flags=re.MULTILINE)[1:]:
            parts = dict(re.findall(r"\.(\w+): +(\S+)", argument))
            if not parts["value_kind"].startswith("hidden_"):
                found[symbol].arguments.append((int(parts["offset"]), int(parts["size"])))
        # The compiler's hidden arguments lie behind the explicit ones.
        end = max((offset + size for offset, size in found[symbol].arguments), default=0)
        if argument_bytes < end:
            raise ReportError(f"{symbol}: {argument_bytes} bytes of arguments, expected at least {end}")
    return found


def _amdgpu_kernel(symbol, fields, wave):
    """Refuses what uses memory where it should use registers, and waves of another size."""
    nothing = {"private_segment_fixed_size": "bytes of scratch", "vgpr_spill_count": "spilled vector registers",
               "sgpr_spill_count": "spilled scalar registers"}
    for field, what in nothing.items():
        if int(fields[field]):
            raise ReportError(f"{symbol}: {fields[field]} {what}; expected none")
    if fields.get("uses_dynamic_stack", "false") != "false":
        raise ReportError(f"{symbol}: a stack of unknown size; expected none")
    if int(fields["wavefront_size"]) != wave:
        raise ReportError(f"{symbol}: waves of {fields['wavefront_size']}; expected {wave}")
    return Resources(int(fields["vgpr_count"]), int(fields["group_segment_fixed_size"]), [],
                     int(fields["max_flat_workgroup_size"]))


READERS = {"cubin": lambda text, _: read_ptxas(text), "code_object": read_amdgpu_notes}
