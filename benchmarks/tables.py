#!/usr/bin/env python3
"""What benchmarks/run reads out of kda-probe's JSON. Python's standard library only.

  tables.py times FILE         a line for each time in a document of `bench layer` or `bench core`
  tables.py launch FILE        the figures of `bench launch`; fails where KernelLaunch, with the device's context current, takes
                               more than 1.15 times the driver's own call
  tables.py same FILE FILE     fails unless two lists of documents of `layer` have the same bits in every case and mode
  tables.py closing FOLDER     decode and prefill of every layer in the folder's bench-*.json, in Markdown
"""

import json
import pathlib
import sys

MOST_OVER_DRIVER = 1.15


def load(path):
    """A document; one without results where the program got no further than an error."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    document = json.loads(text) if text else {}
    if isinstance(document, dict) and "results" not in document:
        print("NO RESULTS in %s: %s" % (pathlib.Path(path).name, document.get("error", {}).get("message", "it is empty")))
        document = {**document, "results": [], "pass": False}
    return document


def times(path):
    rows = load(path)["results"]
    for row in rows:
        name = "%-14s %-15s %6d tokens x %-4d" % (row["geometry"], row["call"] or row["mode"], row["tokens"], row["batch"])
        if row["error"]:
            print("TIME", name, row["error"]["message"])
            continue
        rate = ", states %.3f TB/s" % (row["state_bytes_per_second"] * 1e-12) if row["batch"] > 1 else ""
        print("TIME %s %-6s median %11.1f us, floor %9.1f us, %8.2f x floor%s" % (
            name, "graph" if row["graph"] else "calls", row["median_us"], row["floor_us"], row["over_floor"], rate))
    return 0 if rows else 1


def launch(path):
    document = load(path)
    failed = not document["pass"]
    for row in document["results"]:
        context = "context %s" % row["context"] if row["context"] else "no contexts"
        if row["error"]:
            print("LAUNCH %s: %s" % (context, row["error"]["message"]))
        elif row["bare_us"] is None:
            print("LAUNCH %s: KernelLaunch %.3f us; %s" % (context, row["kdart_us"], row["bare_missing"]))
            # CUDA has such a call: without its figure nothing is shown.
            failed |= document["device"]["id"].startswith("cuda:")
        else:
            print("LAUNCH %s: KernelLaunch %.3f us, the driver's own call %.3f us, ratio %.3f" % (
                context, row["kdart_us"], row["bare_us"], row["ratio"]))
            if row["context"] == "current" and row["ratio"] > MOST_OVER_DRIVER:
                print("LAUNCH the ratio is above %.2f" % MOST_OVER_DRIVER)
                failed = True
    graph = document.get("graph")
    if graph and graph["error"]:
        print("LAUNCH in a graph: %s" % graph["error"]["message"])
    elif graph:
        print("LAUNCH in a graph: %.3f us per kernel" % graph["us_per_kernel"])
    return 1 if failed else 0


def bits(path):
    """(model, case, mode) -> the hashes of out and state."""
    return {(pathlib.Path(document["model"]).name, row["case"], row["mode"]): (row["out_sha256"], row["state_sha256"])
            for document in load(path) for row in document.get("results", [])}


def same(one, other):
    a, b = bits(one), bits(other)
    different = sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))
    for key in different:
        print("DIFFERENT", *key, "in", " and ".join(
            what for i, what in enumerate(("out", "state")) if a.get(key, (0, 0))[i] != b.get(key, (1, 1))[i]))
    print("SAME BITS in %d of %d cases and modes" % (len(a.keys() | b.keys()) - len(different), len(a.keys() | b.keys())))
    return 1 if different or not a else 0


def closing(folder):
    rows = [row for path in sorted(pathlib.Path(folder).glob("bench-*.json")) for row in load(path)["results"]
            if row["mode"] in ("decode", "prefill") and row["call"] == row["mode"] and not row["error"]]
    names = list(dict.fromkeys(row["geometry"] for row in rows))
    rows.sort(key=lambda row: (names.index(row["geometry"]), row["mode"], row["tokens"], row["graph"]))
    if rows:
        print("| layer | call | tokens | submitted as | us | floor us | x floor |")
        print("|---|---|---:|---|---:|---:|---:|")
    for row in rows:
        print("| %s | %s | %d | %s | %.1f | %.1f | %.2f |" % (
            row["geometry"], row["mode"], row["tokens"], "graph" if row["graph"] else "calls", row["median_us"],
            row["floor_us"], row["over_floor"]))
    return 0


def main(arguments):
    commands = {"times": (times, 1), "launch": (launch, 1), "same": (same, 2), "closing": (closing, 1)}
    if not arguments or arguments[0] not in commands or len(arguments) != 1 + commands[arguments[0]][1]:
        print(__doc__, file=sys.stderr)
        return 2
    return commands[arguments[0]][0](*arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
