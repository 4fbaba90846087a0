#!/usr/bin/env python3
"""Runs a command and keeps what it prints: run_logged.py LOG COMMAND [ARGUMENT..].

A failing command's output is shown too, and its exit code is passed on.
"""

import subprocess
import sys
from pathlib import Path


def main(log, command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    Path(log).write_text(done.stdout, encoding="utf-8")
    if done.returncode != 0:
        sys.stderr.write(done.stdout)
    return done.returncode


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1], sys.argv[2:]))
