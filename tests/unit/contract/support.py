"""Finds kernels/contract, and gives the tests a small contract to spoil."""

import copy
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CONTRACT = ROOT / "kernels" / "contract" / "kda.json"
sys.path.insert(0, str(ROOT / "kernels" / "contract"))

_SMALL = {
    "set": "small",
    "version": 3,
    "kernels": [
        {
            "name": "scale_rows",
            "required": True,
            "summary": "out = in * factor.",
            "args": [
                {"name": "in", "type": "ptr", "element": "bf16", "access": "in", "extent": "(rows - 1) * stride + width",
                 "align": 16, "about": "[rows, width]"},
                {"name": "rows", "type": "u32", "about": "rows"},
                {"name": "count", "type": "u64", "about": "not used"},
                {"name": "width", "type": "u32", "about": "width"},
                {"name": "stride", "type": "u32", "about": "stride"},
                {"name": "factor", "type": "f32", "about": "factor"},
                {"name": "map", "type": "bytes", "size": 64, "align": 64, "about": "a tensor map"},
                {"name": "out", "type": "ptr", "element": "f32", "access": "out", "extent": "rows * width", "align": 4,
                 "nullable": True, "about": "[rows, width]"},
            ],
            "grid": ["ceil_div(width, 64)", "rows"],
            "block": ["min(64, width)"],
            "shared": "width * 4",
            "max_threads": 64,
            "barriers": False,
            "tunables": {"width": 32},
        }
    ],
}


def small_contract():
    """A contract in its JSON form, the caller's to change."""
    return copy.deepcopy(_SMALL)
