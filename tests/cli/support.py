"""What the tests of kda-probe share: running it, and making models and case files that are wrong in one way.

Every test program takes --probe FILE (the built program), --kernel-set DIR (the CPU set as a folder) and --data DIR (default
tests/data under the current directory), and passes the rest to unittest.
"""

import argparse
import contextlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

settings = argparse.Namespace()  # probe, kernel_set, data


def main():
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--probe", required=True)
    parser.add_argument("--kernel-set", required=True, type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("tests/data"))
    _, rest = parser.parse_known_args(namespace=settings)
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])


def probe(*arguments, stdout=subprocess.PIPE):
    """Runs kda-probe to its end; the result has returncode, stdout and stderr."""
    command = [settings.probe, *map(str, arguments)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, timeout=300)


def golden(model):
    return settings.data / "golden" / model


def golden_models():
    return sorted(path for path in (settings.data / "golden").iterdir() if path.is_dir())


def read_safetensors(path):
    """Returns (header, data section)."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_safetensors(path, header, data):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


class ProbeTest(unittest.TestCase):
    """A test case with a folder of its own and with checks of whole runs."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(stack.close)

    def copy_model(self, model="kimi-linear-mini"):
        """A copy of a golden model that may be changed."""
        copy = self.folder / model
        shutil.copytree(golden(model), copy)
        return copy

    def copy_kernel_set(self):
        copy = self.folder / "set"
        shutil.copytree(settings.kernel_set, copy)
        return copy

    def check_ok(self, *arguments):
        result = probe(*arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def check_json(self, *arguments, exit_code=0):
        """One JSON document on standard output and nothing else there; returns it."""
        result = probe(*arguments, "--format", "json")
        self.assertEqual(result.returncode, exit_code, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(document["schema"], "kdart.probe/1")
        return document

    def check_error(self, exit_code, code, *arguments, says=(), command=None):
        """The same refusal in both formats: code, message, exit code, the message on standard error, and no result."""
        text = probe(*arguments)
        self.assertEqual(text.returncode, exit_code, text.stderr)
        self.assertEqual(text.stdout, "")

        result = probe(*arguments, "--format", "json")
        self.assertEqual(result.returncode, exit_code, result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(list(document), ["schema", "command", "error"])
        self.assertEqual(document["schema"], "kdart.probe/1")
        self.assertEqual(document["command"], command or arguments[0])
        self.assertEqual(list(document["error"]), ["code", "message", "exit"])
        self.assertEqual(document["error"]["code"], code, document["error"]["message"])
        self.assertEqual(document["error"]["exit"], exit_code)
        for message in (text.stderr, result.stderr, document["error"]["message"]):
            for words in says:
                self.assertIn(words, message)
        self.assertIn(document["error"]["message"], text.stderr)
        return document["error"]["message"]
