#!/usr/bin/env python3
"""Helper of scripts/demo: picks the devices to run on and prints the table of results.

demo_table.py devices                        reads `kda-probe list --format json`, prints one device id per backend
demo_table.py table GOLDEN RESULTS DEVICE..  reads RESULTS/DEVICE/MODEL.json; exit code 1 when anything is not a pass
"""

import json
import pathlib
import re
import sys

MODES = ["decode", "decode_k", "prefill", "prefill_split"]


def device_ids(node):
    """Yields every device id in a JSON document, in its order."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "id" and isinstance(value, str) and re.fullmatch(r"[a-z]+:[0-9]+", value):
                yield value
            else:
                yield from device_ids(value)
    elif isinstance(node, list):
        for value in node:
            yield from device_ids(value)


def print_devices():
    first = {}
    for device in device_ids(json.load(sys.stdin)):
        first.setdefault(device.split(":")[0], device)
    if not first:
        sys.exit("demo: kda-probe list names no device")
    print(*first.values(), sep="\n")


def read_results(folder, model):
    """Returns (rows, None), or (None, why there are no rows)."""
    try:
        document = json.loads((folder / f"{model}.json").read_text())
        if "error" in document:
            return None, document["error"]["message"]
        if not document["results"]:
            return None, "no result rows"
        return document["results"], None
    except (OSError, ValueError, KeyError) as error:
        log = folder / f"{model}.log"
        return None, (log.read_text().strip() if log.exists() else "") or str(error)


def golden_cases(folder):
    """The names of the cases in a model's case file: the part of each tensor name before the first dot."""
    with open(folder / "cases.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return sorted({name.split(".")[0] for name in header if name != "__metadata__"})


def missing_rows(rows, cases):
    """What should have been run and was not: every case in every mode, but no split of a single token."""
    there = {(row["case"], row["mode"]) for row in rows}
    single = {row["case"] for row in rows if row["tokens"] == 1}
    for case in cases:
        for mode in MODES:
            if (case, mode) not in there and not (mode == "prefill_split" and case in single):
                yield f"{case} in mode {mode}"


def worst(rows, key):
    """The largest figure; a null stands for a figure that is not finite, and is worse than any number."""
    values = [row[key] for row in rows]
    return None if None in values else max(values)


def cell(rows):
    if not rows:
        return "-"  # the case is too short for this mode
    error = worst(rows, "out_rel_l2")
    text = "not finite" if error is None else f"{error:.2e}"
    return text if all(row["pass"] is True for row in rows) else text + " FAIL"


def print_table(golden, results, devices):
    models = sorted(path.name for path in golden.iterdir() if path.is_dir())
    layout = "{:<9} {:<22} {:<22} {:>6}" + "  {:>13}" * len(MODES) + "  {:>13}"
    print("\nRelative L2 error of the layer's output against float64, the worst of all routes, per mode;")
    print("last column: that of the recurrent state, the worst of all modes. '-': too short for the mode.\n")
    print(layout.format("device", "model", "case", "tokens", *MODES, "state"))
    passed = failed = 0
    for device in devices:
        for model in models:
            rows, problem = read_results(results / device, model)
            if rows is None:
                print(f"{device:<9} {model:<22} FAIL: {problem}")
                failed += 1
                continue
            passed += sum(row["pass"] is True for row in rows)
            failed += sum(row["pass"] is not True for row in rows)
            for missing in missing_rows(rows, golden_cases(golden / model)):
                print(f"{device:<9} {model:<22} FAIL: no result for {missing}")
                failed += 1
            for case in dict.fromkeys(row["case"] for row in rows):
                of_case = [row for row in rows if row["case"] == case]
                state = worst(of_case, "recurrent_rel_l2")
                print(
                    layout.format(
                        device,
                        model,
                        case,
                        of_case[0]["tokens"],
                        *(cell([row for row in of_case if row["mode"] == mode]) for mode in MODES),
                        "not finite" if state is None else f"{state:.2e}",
                    )
                )
    ok = failed == 0 and passed > 0
    print(f"\n{'PASS' if ok else 'FAIL'}: {passed} checks passed, {failed} failed, on {' '.join(devices) or 'no device'}")
    return ok


if __name__ == "__main__":
    if sys.argv[1:] == ["devices"]:
        print_devices()
    elif len(sys.argv) >= 4 and sys.argv[1] == "table":
        ok = print_table(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4:])
        sys.exit(0 if ok else 1)
    else:
        sys.exit(__doc__)
