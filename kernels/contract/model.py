"""A contract file as checked Python objects. Every refusal names the kernel and the argument it is about."""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from expression import Expression, ExpressionError

MAX_ARGUMENTS = 32
MAX_ARGUMENT_BYTES = 256

SCALARS = {"u32": 4, "i32": 4, "u64": 8, "f32": 4}
ELEMENTS = {"bf16": 2, "f32": 4, "u32": 4}
ACCESS = ("in", "out", "inout")

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


class ContractError(ValueError):
    """A contract file that cannot be used."""


@dataclass
class Arg:
    name: str
    type: str
    offset: int
    size: int
    about: str
    element: str = ""
    access: str = "none"
    extent: Expression | None = None
    align: int = 0  # ptr: of the address; bytes: of the block
    nullable: bool = False

    @property
    def is_ptr(self):
        return self.type == "ptr"

    @property
    def is_integer(self):
        return self.type in ("u32", "i32", "u64")


@dataclass
class Kernel:
    name: str
    required: bool
    summary: str
    args: list[Arg]
    grid: list[Expression]
    block: list[Expression]
    shared: Expression
    max_threads: int
    barriers: bool
    min_threads: int = 0  # 0: any
    requires: list[str] = field(default_factory=list)
    tunables: dict[str, int] = field(default_factory=dict)

    @property
    def argument_bytes(self):
        return self.args[-1].offset + self.args[-1].size

    @property
    def struct(self):
        """The C++ struct: gate -> GateArgs."""
        return "".join(part.capitalize() for part in self.name.split("_")) + "Args"


@dataclass
class Contract:
    set: str
    version: int
    kernels: list[Kernel]


def load(path):
    """Reads and checks a contract file. Throws ContractError."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), object_pairs_hook=_unique_keys)
    except (OSError, ValueError) as error:
        raise ContractError(f"{path}: {error}") from error
    try:
        return parse(document)
    except ContractError as error:
        raise ContractError(f"{path}: {error}") from error


def parse(document):
    """Checks a contract that was read from JSON. Throws ContractError."""
    _expect_fields("the contract", document, {"set": str, "version": int, "kernels": list}, {})
    _check_name("set", document["set"])
    kernels = [_kernel(index, entry) for index, entry in enumerate(document["kernels"])]
    if not kernels:
        raise ContractError("kernels: the list is empty")
    _check_unique("kernel", [kernel.name for kernel in kernels])
    return Contract(document["set"], document["version"], kernels)


_KERNEL_FIELDS = {
    "name": str,
    "required": bool,
    "summary": str,
    "args": list,
    "grid": list,
    "block": list,
    "shared": str,
    "max_threads": int,
    "barriers": bool,
}


def _kernel(index, entry):
    _expect_fields(f"kernels[{index}]", entry, {"name": str}, None)
    name = entry["name"]
    _check_name(f"kernels[{index}].name", name)
    where = f"kernel '{name}'"
    _expect_fields(where, entry, _KERNEL_FIELDS, {"requires": list, "tunables": dict, "min_threads": int})
    args = _args(where, entry["args"])
    integers = [arg.name for arg in args if arg.is_integer]
    for arg, raw in zip(args, entry["args"]):
        if arg.is_ptr:
            arg.extent = _expression(f"{where}, argument '{arg.name}', extent", raw["extent"], integers)
    tunables = entry.get("tunables", {})
    for tunable, value in tunables.items():
        if tunable not in integers or type(value) is not int or value <= 0:
            raise ContractError(f"{where}, tunable '{tunable}': expected an integer argument's name and a positive default")
    if entry["max_threads"] <= 0:
        raise ContractError(f"{where}, max_threads: {entry['max_threads']}, expected a positive count")
    if not 0 <= entry.get("min_threads", 0) <= entry["max_threads"]:
        raise ContractError(f"{where}, min_threads: {entry['min_threads']}, expected 0 to max_threads")
    return Kernel(
        name=name,
        required=entry["required"],
        summary=entry["summary"],
        args=args,
        grid=_axes(f"{where}, grid", entry["grid"], integers),
        block=_axes(f"{where}, block", entry["block"], integers),
        shared=_expression(f"{where}, shared", entry["shared"], integers),
        max_threads=entry["max_threads"],
        barriers=entry["barriers"],
        min_threads=entry.get("min_threads", 0),
        requires=entry.get("requires", []),
        tunables=tunables,
    )


def _args(where, entries):
    if not 1 <= len(entries) <= MAX_ARGUMENTS:
        raise ContractError(f"{where}: {len(entries)} arguments, expected 1 to {MAX_ARGUMENTS}")
    args = []
    offset = 0
    for index, entry in enumerate(entries):
        arg = _arg(f"{where}, args[{index}]", where, entry)
        alignment = arg.align if arg.type == "bytes" else arg.size
        arg.offset = -(-offset // alignment) * alignment
        offset = arg.offset + arg.size
        args.append(arg)
    if offset > MAX_ARGUMENT_BYTES:
        raise ContractError(f"{where}: {offset} argument bytes, the limit is {MAX_ARGUMENT_BYTES}")
    _check_unique(f"{where}, argument", [arg.name for arg in args])
    return args


def _arg(position, kernel, entry):
    _expect_fields(position, entry, {"name": str, "type": str}, None)
    _check_name(f"{position}.name", entry["name"])
    where = f"{kernel}, argument '{entry['name']}'"
    common = {"name": str, "type": str, "about": str}
    if entry["type"] in SCALARS:
        _expect_fields(where, entry, common, {})
        return Arg(entry["name"], entry["type"], 0, SCALARS[entry["type"]], entry["about"])
    if entry["type"] == "bytes":
        _expect_fields(where, entry, {**common, "size": int, "align": int}, {})
        _check_alignment(where, entry["align"])
        if entry["size"] <= 0 or entry["size"] % entry["align"]:
            raise ContractError(f"{where}, size: {entry['size']}, expected a positive multiple of align")
        return Arg(entry["name"], "bytes", 0, entry["size"], entry["about"], align=entry["align"])
    if entry["type"] != "ptr":
        raise ContractError(f"{where}, type: '{entry['type']}', expected ptr, u32, i32, u64, f32 or bytes")
    required = {**common, "element": str, "access": str, "extent": str, "align": int}
    _expect_fields(where, entry, required, {"nullable": bool})
    if entry["element"] not in ELEMENTS:
        raise ContractError(f"{where}, element: '{entry['element']}', expected one of {', '.join(ELEMENTS)}")
    if entry["access"] not in ACCESS:
        raise ContractError(f"{where}, access: '{entry['access']}', expected one of {', '.join(ACCESS)}")
    _check_alignment(where, entry["align"])
    if entry["align"] < ELEMENTS[entry["element"]]:
        raise ContractError(f"{where}, align: {entry['align']} is less than one element")
    return Arg(entry["name"], "ptr", 0, 8, entry["about"], entry["element"], entry["access"], None, entry["align"],
               entry.get("nullable", False))


def _axes(where, entries, names):
    if not 1 <= len(entries) <= 3:
        raise ContractError(f"{where}: {len(entries)} axes, expected 1 to 3")
    return [_expression(where, entry, names) for entry in entries]


def _expression(where, text, names):
    if type(text) is not str:
        raise ContractError(f"{where}: {text!r}, expected an expression in a string")
    try:
        return Expression(text, names)
    except ExpressionError as error:
        raise ContractError(f"{where}: {error}") from error


def _expect_fields(where, entry, required, optional):
    """Checks names and types. `optional` None lets further fields pass."""
    if type(entry) is not dict:
        raise ContractError(f"{where}: found {type(entry).__name__}, expected an object")
    for name, kind in required.items():
        if name not in entry:
            raise ContractError(f"{where}: the field '{name}' is missing")
        if type(entry[name]) is not kind:
            raise ContractError(f"{where}, {name}: found {type(entry[name]).__name__}, expected {kind.__name__}")
    if optional is None:
        return
    for name, value in entry.items():
        if name in required:
            continue
        if name not in optional:
            raise ContractError(f"{where}: the field '{name}' is unknown")
        if type(value) is not optional[name]:
            raise ContractError(f"{where}, {name}: found {type(value).__name__}, expected {optional[name].__name__}")


def _check_name(where, name):
    if not _NAME.match(name):
        raise ContractError(f"{where}: '{name}', expected lower-case letters, digits and _")


def _check_alignment(where, align):
    if align <= 0 or align & (align - 1):
        raise ContractError(f"{where}, align: {align}, expected a power of two")


def _check_unique(what, names):
    seen = set()
    for name in names:
        if name in seen:
            raise ContractError(f"{what} '{name}' is there twice")
        seen.add(name)


def _unique_keys(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"the field '{key}' is there twice in one object")
    return dict(pairs)
